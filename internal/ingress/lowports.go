package ingress

import "fmt"

// LowPorts says how a user without privileges gets a port below the lowest one that is free for all.
func LowPorts(port, lowest uint16) string {
	return fmt.Sprintf(`Users without privileges may open ports from %[2]d on. Any one of these, done once by root, gives them port %[1]d:
  1. let all users open it:   echo net.ipv4.ip_unprivileged_port_start=%[1]d > /etc/sysctl.d/80-podtask.conf && sysctl --system
  2. have the system open it: systemctl enable --now podtask-ingress-http@USER.socket podtask-ingress-https@USER.socket
  3. redirect it to another:  nft add table ip podtask '{ chain in { type nat hook prerouting priority dstnat; tcp dport 80 redirect to :8080; tcp dport 443 redirect to :8443; }; }'
     and run podtask ingress serve --http :8080 --https :8443
1 fits a host of one user, 2 a host of several, 3 a host whose sysctl and units are not yours. docs/online.md has more.`, port, lowest)
}
