package command

import "github.com/podtask/podtask/internal/netnshelper"

// netnsHelper is the command line of the helper that makes sockets inside the network
// namespace of a task: that of its metadata endpoint, and those of checks. It is nil if this
// program does not know where it is.
func (p *Program) netnsHelper() []string {
	if p.Executable == nil {
		return nil
	}
	self, err := p.Executable()
	if err != nil {
		return nil
	}
	return netnshelper.Command(self)
}
