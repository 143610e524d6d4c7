package ingress

import "fmt"

// AskDoctor ends a problem whose remedy `podtask doctor` prints.
const AskDoctor = ": `podtask doctor` says how to change that"

// LowPorts says how a user without privileges gets the ports 80 and 443, who may open those from lowest on.
func LowPorts(lowest uint16) string {
	return fmt.Sprintf(`Users without privileges may open ports from %d on. Any one of these, done once by root, gives them 80 and 443:
  1. let all users open them:   echo net.ipv4.ip_unprivileged_port_start=80 > /etc/sysctl.d/80-podtask.conf && sysctl --system
  2. have the system open them: systemctl enable --now podtask-ingress-http@USER.socket podtask-ingress-https@USER.socket
  3. redirect them to others:   nft add table inet podtask '{ chain in { type nat hook prerouting priority dstnat; tcp dport 80 redirect to :8080; tcp dport 443 redirect to :8443; }; }'
     and run podtask ingress serve --http :8080 --https :8443
1 fits a host of one user, 2 a host of several, 3 a host whose sysctl and units are not yours. docs/online.md has more.`, lowest)
}
