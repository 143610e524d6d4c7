//go:build !remote || !containers_image_openpgp

package main

// Podman's libraries choose with build tags between talking to a service, in Go alone, and
// running containers themselves, with C libraries. Without the tags, nothing but this file is
// compiled, and the compiler prints this one message.
const _ int = "podtask needs build tags: CGO_ENABLED=0 go install -tags 'remote containers_image_openpgp' github.com/podtask/podtask/cmd/podtask@latest"

func main() {}
