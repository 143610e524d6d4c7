package ecsexec

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/aws/datachannel"
)

// session is one session. Its goroutine has everything but inbox, output and done.
type session struct {
	id      string
	cfg     Config
	target  Target
	inbox   chan func() // what others want done
	output  chan []byte // what the program prints
	done    chan struct{}
	channel *datachannel.Channel
	conn    *conn    // nil: the client is away
	running *running // nil: the program was not started
	why     string   // the session ends; empty: the program has ended
	next    plan
	// over: nothing is left to do.
	over bool
}

// plan is what follows if nothing else happens.
type plan struct {
	due  time.Time
	step func() // nil: nothing
}

func after(d time.Duration, step func()) plan { return plan{time.Now().Add(d), step} }

func newSession(id string, cfg Config, t Target, seed uint64) *session {
	return &session{
		id: id, cfg: cfg, target: t, channel: datachannel.New(id, seed, t.Forward),
		inbox: make(chan func()), output: make(chan []byte), done: make(chan struct{}),
	}
}

// do has the session's goroutine do something; false: the session has ended.
func (s *session) do(f func()) bool {
	select {
	case s.inbox <- f:
		return true
	case <-s.done:
		return false
	}
}

// run is the session's goroutine. It never blocks on a client or on Podman.
func (s *session) run(ctx context.Context) {
	defer close(s.done)
	stopped := ctx.Done()
	s.next = after(away, func() { s.end("") })
	for !s.over {
		var output <-chan []byte
		if s.channel.Free() > 0 || s.running != nil && s.running.told {
			output = s.output
		}
		timer := time.NewTimer(time.Until(s.wake()))
		select {
		case f := <-s.inbox:
			f()
		case b := <-output:
			if s.channel.Free() > 0 { // else the client does not read, and the program is to end
				s.send(s.channel.Output(b, time.Now()))
			}
		case <-timer.C:
			s.tick(time.Now())
		case <-stopped:
			stopped = nil
			s.end("the agent is ending")
		}
		timer.Stop()
	}
	if s.conn != nil {
		s.conn.leave()
	}
}

// wake is the time at which tick has something to do.
func (s *session) wake() time.Time {
	const never = 24 * time.Hour
	at := time.Now().Add(never)
	if s.next.step != nil {
		at = s.next.due
	}
	if again := s.channel.Wake(); s.conn != nil && !again.IsZero() && again.Before(at) {
		at = again
	}
	return at
}

func (s *session) tick(now time.Time) {
	if p := s.next; p.step != nil && !now.Before(p.due) {
		s.next = plan{}
		p.step()
	}
	if s.conn != nil {
		s.send(s.channel.Again(now))
	}
}

// send sends a frame, if there is one. Without a client it is sent when there is one again.
func (s *session) send(frame []byte) {
	if frame != nil && s.conn != nil && !s.conn.send(frame) {
		s.lost(s.conn)
	}
}

// attach begins to use a client's connection.
func (s *session) attach(c *conn) {
	if s.conn != nil {
		s.conn.close()
	}
	s.conn = c
	switch r := s.running; {
	case r == nil:
		s.next = after(greeting, func() { s.end("the client did not answer the handshake") })
	case r.finished:
		s.next = after(leaving, s.close)
	case !r.told:
		s.next = plan{}
	}
	for _, frame := range s.channel.Connect(time.Now()) {
		s.send(frame)
	}
	if s.conn == c && !c.ping() {
		s.lost(c)
	}
}

// lost handles a connection that has broken off. The client may come back.
func (s *session) lost(c *conn) {
	c.close()
	if s.conn != c {
		return
	}
	s.conn = nil
	switch r := s.running; {
	case r != nil && r.finished:
		s.next = after(away, s.close)
	case r == nil || !r.told:
		s.next = after(away, func() { s.end("the client was away") })
	}
}

// receive handles a frame from a client.
func (s *session) receive(c *conn, frame []byte) {
	if s.conn != c {
		return
	}
	events, out, err := s.channel.Receive(frame, s.running == nil || s.running.room(), time.Now())
	for _, frame := range out {
		s.send(frame)
	}
	for _, e := range events {
		s.take(e)
	}
	if err != nil {
		s.cfg.Log.Warn("the client of a session sends invalid messages", "session", s.id, "error", err)
		s.lost(c)
	}
	s.closeIfIdle()
}

// pong notes that the client has read what was sent to it.
func (s *session) pong(c *conn) {
	if s.conn == c {
		s.channel.Pong()
		s.closeIfIdle()
	}
}

// take does what the client wants.
func (s *session) take(e datachannel.Event) {
	if s.over {
		return
	}
	switch e.What {
	case datachannel.Ready:
		if s.target.forwards() {
			s.start(datachannel.Size{})
			return
		}
		// The plugin tells the size at once, others perhaps never.
		s.next = after(unsized, func() { s.start(datachannel.Size{}) })
	case datachannel.Resized:
		if s.running == nil {
			s.start(e.Size)
		} else {
			s.running.resize(e.Size)
		}
	case datachannel.Typed:
		if s.running == nil {
			s.start(datachannel.Size{})
		}
		s.running.write(e.Data)
	case datachannel.Refused:
		s.end(string(e.Data))
	case datachannel.Ended:
		s.end("")
	}
}

// start starts the program.
func (s *session) start(size datachannel.Size) {
	s.next = plan{}
	s.running = newRunning()
	go s.running.run(s, size)
}

// notConnected tells the client that a connection to the forwarded port failed.
func (s *session) notConnected(err error) {
	s.cfg.Log.Warn("a session cannot connect to the port that it forwards", "session", s.id, "task", s.target.Task, "port", s.target.Forward.Port, "error", err)
	if s.channel.Free() > 0 && !s.over {
		s.send(s.channel.ConnectFailed(time.Now()))
	}
}

// end ends the session: at once if there is no program. Why is shown to the user.
func (s *session) end(why string) {
	r := s.running
	if r == nil {
		s.why = why
		s.close()
		return
	}
	if r.told || r.finished {
		return
	}
	s.why, r.told = why, true
	close(r.hangUp)
	s.next = after(ending, func() {
		s.cfg.Log.Warn("the program of a session does not end", "session", s.id, "task", s.target.Task)
		s.close()
	})
}

// ended notes that the program has ended, or was not started. Its last output is waited
// for.
func (s *session) ended(code int, err error) {
	if err != nil {
		s.cfg.Log.Info("the program of a session has failed", "session", s.id, "task", s.target.Task, "error", err)
	} else {
		s.cfg.Log.Info("the program of a session has ended", "session", s.id, "task", s.target.Task, "exit code", code)
	}
	if err != nil && s.why == "" {
		s.why = err.Error()
	}
	s.running.finished = true
	if s.conn == nil && !s.running.told {
		s.next = after(away, s.close)
	} else {
		s.next = after(leaving, s.close)
	}
	s.closeIfIdle()
}

// closeIfIdle ends the session when the client has all of the program's output.
func (s *session) closeIfIdle() {
	if s.running != nil && s.running.finished && s.channel.Idle() && (s.conn != nil || s.running.told) {
		s.close()
	}
}

// close says the end to the client.
func (s *session) close() {
	if !s.over {
		s.over = true
		s.send(s.channel.Close(s.why, time.Now()))
	}
}
