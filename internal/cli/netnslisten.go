package cli

import "github.com/podtask/podtask/internal/begin"

// netnsHelper is the command line of the helper that makes sockets inside the network
// namespace of a task: that of its metadata endpoint, and those of checks. It is nil if this
// program does not know where it is.
func (p *program) netnsHelper() []string {
	if p.executable == nil {
		return nil
	}
	self, err := p.executable()
	if err != nil {
		return nil
	}
	return begin.NetnsHelper(self)
}
