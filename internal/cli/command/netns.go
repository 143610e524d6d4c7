package command

import "github.com/podtask/podtask/internal/netnshelper"

// netnsHelper returns the command line of the helper that makes sockets inside the network namespace of a
// task, for its metadata endpoint and its checks; nil if the path of this program is not known.
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
