package logdelivery

import (
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Outcome is what has become of a part of the output of a container.
type Outcome struct {
	Driver string
	// Lines and Bytes were acknowledged by the server.
	Lines, Bytes int64
	// LostLines were refused or damaged, LostBytes of the log files were given up.
	LostLines, LostBytes int64
}

// Observe makes fn get each outcome. Many goroutines call fn at once. Observe must be called
// before the first delivery starts.
func (d *Deliverer) Observe(fn func(Outcome)) { d.counts = fn }

// count tells what has become of output of a container.
func (a *Delivery) count(c *container, o Outcome) {
	if a.counts != nil {
		o.Driver = string(a.task.State().Task.Containers[c.index].Log.Driver)
		a.counts(o)
	}
}

// Routes returns how far the output of the containers of a task was sent, of those whose
// output is sent here. It needs only the files, so that any process can ask.
func (d *Deliverer) Routes(s lifecycle.State) ([]api.LogRoute, error) {
	all := []api.LogRoute{}
	for i, c := range s.Task.Containers {
		if !c.Log.Remote() || !d.Senders.Sends(s, i) {
			continue
		}
		files := d.Files.Of(s.ID, i)
		r, _ := files.Load() // a damaged one is that of the beginning
		left, err := files.Waiting(r.Position)
		if err != nil {
			return nil, err
		}
		all = append(all, api.LogRoute{
			Container: c.Name, Driver: string(c.Log.Driver), Destination: c.Log.Server(c.Name, s.ID, defined(s, i)), Until: r.Until, WaitingBytes: left,
			LostBytes: r.LostBytes, LostLines: r.LostLines, Error: r.Error, Since: r.Since,
		})
	}
	return all, nil
}
