package services

import (
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/pkg/service"
)

// clocked tells a service when the clock of the host was set. The times of a record are those of the
// wall clock, which survive a restart; while the agent runs, Go's monotonic clock tells how long it was.
type clocked struct {
	*driver.Service
	last, before time.Time // of the latest steps
}

// leastJump is the least change of the clock that counts. Smaller ones are those of NTP.
const leastJump = 2 * time.Second

// Step implements loop.Driver.
func (c *clocked) Step(at time.Time, batch []driver.Message) (driver.ServiceDecision, error) {
	now := time.Now()
	if by := jump(c.last, now); by != 0 {
		batch = append([]driver.Message{{Input: service.ClockChanged{By: by}}}, batch...)
	}
	c.last, c.before = now, c.last
	return c.Service.Step(at, batch)
}

// Undo implements loop.Driver: the change is found again.
func (c *clocked) Undo(batch []driver.Message) []driver.Message {
	c.last = c.before
	return c.Service.Undo(batch)
}

// jump returns by how much the clock was set forward between two times that have a monotonic reading.
func jump(from, to time.Time) time.Duration {
	if from.IsZero() {
		return 0
	}
	if by := to.Round(0).Sub(from.Round(0)) - to.Sub(from); by >= leastJump || by <= -leastJump {
		return by
	}
	return 0
}
