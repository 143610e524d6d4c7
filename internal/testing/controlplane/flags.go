package controlplane

import (
	"errors"
	"fmt"
)

// kubeletClient is the user as whom the API server calls nodes.
const kubeletClient = "kube-apiserver-kubelet-client"

// prepare makes the certificates, the kubeconfig files and the flags of all parts.
func (p *Plane) prepare() error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	p.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if p.ca, err = newAuthority(p.dir, "ca"); err != nil {
		return err
	}
	// The authority of aggregated API servers is another one: whom it signs may name any user.
	front, err := newAuthority(p.dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	var controllers, scheduler string
	err = errors.Join(
		front.client("front-proxy", "front-proxy"), p.ca.server("apiserver"), p.ca.server("service-accounts"), p.ca.client("kubelet-client", kubeletClient),
		p.identity(&p.Admin, "admin", "admin", "system:masters"),
		p.identity(&controllers, "controllers", "system:kube-controller-manager"),
		p.identity(&scheduler, "scheduler", "system:kube-scheduler"),
	)
	etcd, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	p.flags = map[string][]string{
		Etcd: {
			"--name=default", "--data-dir=" + p.file("etcd"), "--unsafe-no-fsync", "--log-level=error",
			"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		},
		Server: {
			"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
			"--tls-cert-file=" + p.file("apiserver.crt"), "--tls-private-key-file=" + p.file("apiserver.key"),
			"--client-ca-file=" + p.CA(), "--requestheader-client-ca-file=" + p.file("front-proxy-ca.crt"),
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--requestheader-allowed-names=front-proxy", "--proxy-client-cert-file=" + p.file("front-proxy.crt"), "--proxy-client-key-file=" + p.file("front-proxy.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + p.file("service-accounts.crt"),
			"--service-account-signing-key-file=" + p.file("service-accounts.key"), "--service-cluster-ip-range=10.96.0.0/24",
			"--kubelet-client-certificate=" + p.file("kubelet-client.crt"), "--kubelet-client-key=" + p.file("kubelet-client.key"),
			"--kubelet-certificate-authority=" + p.CA(), "--kubelet-preferred-address-types=InternalIP",
			"--endpoint-reconciler-type=none", "--allow-privileged",
		},
		Controllers: {
			"--kubeconfig=" + controllers, "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials",
			"--service-account-private-key-file=" + p.file("service-accounts.key"), "--root-ca-file=" + p.CA(),
			"--cluster-signing-cert-file=" + p.CA(), "--cluster-signing-key-file=" + p.file("ca.key"),
			"--node-monitor-period=2s", "--node-monitor-grace-period=20s", // a dead node is noticed soon
		},
		Scheduler: {"--kubeconfig=" + scheduler, "--leader-elect=false", "--secure-port=0"},
	}
	return err
}

func (p *Plane) identity(file *string, name, user string, groups ...string) (err error) {
	*file, err = p.Identity(name, user, groups...)
	return err
}
