package service

import (
	"fmt"
	"slices"
	"time"
)

// row is a stage in a table.
type row struct {
	stage Stage
	// begin is what happens when the stage begins; nil for nothing. Its hooks are called then too.
	begin func(*State, *Attempt)
	// done reports whether the stage's own work is done; nil: there is none. The next stage begins when it
	// is, and the hooks have succeeded.
	done func(*State, *Attempt, time.Time) bool
	// waits says in words for what, when the work is not done; %d are the healthy and the desired copies of green.
	waits string
}

// The tables: of the strategies with two sets of copies, of Rolling with hooks, bake time or alarms, and
// the ways back of both. PreProduction and Production are repeated until green has all connections.
var (
	shifting = []row{
		{Reconcile, nil, onlyBlue, "for copies of other revisions to stop"},
		{PreScaleUp, nil, nil, ""},
		{ScaleUp, nil, greenHealthy, "for the new copies (%d of %d healthy)"},
		{PostScaleUp, nil, nil, ""},
		{TestShift, shiftTest, nil, ""},
		{PostTestShift, nil, nil, ""},
		{PreProduction, nil, greenHealthy, "for the new copies (%d of %d healthy)"},
		{Production, shiftProduction, stepBaked, "before the next step"},
		{PostProduction, nil, nil, ""},
		{Bake, nil, baked, "with both revisions at full size"},
		{CleanUp, prove, onlyGreen, "for the old copies to stop"},
	}
	shiftingBack = []row{
		{ScaleUp, nil, blueReady, "for the old copies"},
		{Production, shiftBack, nil, ""},
		{TestShift, nil, nil, ""},
		{CleanUp, nil, blueAlone, "for the new copies to stop"},
	}
	rolling = []row{
		{PreScaleUp, nil, nil, ""},
		{ScaleUp, nil, rolled, "for the new copies (%d of %d healthy)"},
		{PostScaleUp, nil, nil, ""},
		{Bake, nil, baked, "with all copies replaced"},
	}
	rollingBack = []row{
		{ScaleUp, nil, rolled, "for the earlier copies (%d of %d healthy)"},
	}
)

// onlyBlue: copies of other revisions are gone, but for protected ones.
func onlyBlue(s *State, a *Attempt, at time.Time) bool {
	p := a.Progress
	return !s.gathers(p) && !slices.ContainsFunc(s.Tasks, func(t Task) bool {
		return t.present() && t.Deployment != p.Blue && t.Deployment != p.Green && !t.spared(at)
	})
}

// gathers: copies of other revisions than blue and green have connections, until blue has all its copies.
func (s *State) gathers(p *Progress) bool {
	early := p.Stage == Reconcile || p.Back && p.Stage == ScaleUp
	return early && s.Count(p.Blue).Healthy < s.target() && slices.ContainsFunc(s.Tasks, func(t Task) bool {
		return t.Healthy() && t.Deployment != p.Blue && t.Deployment != p.Green
	})
}

func greenHealthy(s *State, a *Attempt, _ time.Time) bool {
	return s.Count(a.Progress.Green).Healthy >= s.target()
}

func shiftTest(_ *State, a *Attempt) { a.Progress.TestWeight = Whole }

func shiftProduction(_ *State, a *Attempt) {
	p := a.Progress
	p.Steps++
	switch m := a.Method; {
	case p.Blue == "": // there is nothing to shift from
		p.Weight = Whole
	case m.Strategy == Linear:
		p.Weight = min(Whole, p.Weight+m.Step.Part)
	case m.Strategy == Canary && p.Steps == 1:
		p.Weight = m.Step.Part
	default:
		p.Weight = Whole
	}
}

func stepBaked(_ *State, a *Attempt, at time.Time) bool {
	return !at.Before(a.Progress.Since.Add(a.Wait()))
}

func baked(s *State, a *Attempt, at time.Time) bool {
	if a.rolls() {
		return stepBaked(s, a, at) && rolled(s, a, at)
	}
	return stepBaked(s, a, at) && greenHealthy(s, a, at)
}

// prove notes that green is what a later rollback returns to: it has had all connections for the bake time.
func prove(s *State, _ *Attempt) { s.noteCompleted() }

func onlyGreen(s *State, a *Attempt, at time.Time) bool {
	return s.Count("").Present == s.Count(a.Progress.Green).Present && greenHealthy(s, a, at)
}

// blueReady: there are copies that the connections can go back to. All of them, if some had been stopped.
func blueReady(s *State, a *Attempt, _ time.Time) bool {
	need := s.target()
	if !a.Progress.Regrow {
		need = min(need, 1)
	}
	return s.Count(a.Progress.Blue).Healthy >= need
}

func shiftBack(_ *State, a *Attempt) { a.Progress.Weight, a.Progress.TestWeight = 0, 0 }

func blueAlone(s *State, a *Attempt, _ time.Time) bool {
	mine := s.Count(a.Progress.Blue)
	return s.Count("").Present == mine.Present && mine.Healthy >= s.target()
}

func rolled(s *State, a *Attempt, _ time.Time) bool {
	return s.whole() || !a.Progress.Back && s.early(a.Method.Early)
}

// rolls reports whether copies are replaced one after the other.
func (a Attempt) rolls() bool { return a.Method.rolls() }

func (m Method) rolls() bool { return m.Strategy == "" || m.Strategy == Rolling }

// rows is the table of an attempt with stages.
func (a Attempt) rows() []row {
	switch {
	case a.rolls() && a.Progress.Back:
		return rollingBack
	case a.rolls():
		return rolling
	case a.Progress.Back:
		return shiftingBack
	}
	return shifting
}

func (a Attempt) row() (rows []row, i int) {
	rows = a.rows()
	return rows, slices.IndexFunc(rows, func(r row) bool { return r.stage == a.Progress.Stage })
}

// Wait is the time that the present stage of an attempt with stages lasts at least.
func (a Attempt) Wait() time.Duration {
	switch p := a.Progress; {
	case p.Back:
	case p.Stage == Bake:
		return a.Method.Bake
	case p.Stage == Production && p.Weight < Whole:
		return a.Method.Step.Bake
	}
	return 0
}

// deadline is the time at which the present stage's own work has taken too long; zero for never. The hooks have times
// of their own, and the last stage only tidies up.
func (a Attempt) deadline() time.Time {
	if p := a.Progress; p.Stage != CleanUp && !p.Back {
		return p.Since.Add(a.Wait() + StageLimit)
	}
	return time.Time{}
}

// staged returns the attempt that goes through stages now; nil for none.
func (s *State) staged() *Attempt {
	if a := s.History.current(); s.Status == Active && a != nil && a.Progress != nil {
		return a
	}
	return nil
}

// Staged returns the attempt that goes through stages now, and whether there is one.
func (s State) Staged() (Attempt, bool) {
	if a := s.staged(); a != nil {
		return *a, true
	}
	return Attempt{}, false
}

// shift returns the attempt that says how connections are shared between two sets of copies: the one
// that shifts them, or has been given up in the middle; nil if there is none.
func (s *State) shift() *Attempt {
	if n := len(s.History); n > 0 {
		a := &s.History[n-1]
		if ok := a.Status == AttemptSuccessful || a.Status == AttemptReturned; a.Progress != nil && !a.rolls() && !ok {
			return a
		}
	}
	return nil
}

// plan returns the first stage of an attempt that brings the copies to the primary deployment; nil for an
// attempt without stages. The weights are those of the attempt before, if it was given up.
func (s *State) plan(at time.Time, m Method, before *Attempt) *Progress {
	green := s.Primary().ID
	p := &Progress{Green: green, Blue: s.proper(), Stage: PreScaleUp, Since: at}
	switch {
	case m.rolls() && len(m.Hooks) == 0 && m.Bake == 0 && len(m.Alarms.names()) == 0:
		return nil
	case m.rolls():
		return p
	case s.keptOf(green) > 0: // it returns to copies that are still there
		p.Blue, p.Green, p.Back, p.Regrow, p.Stage = green, p.Blue, true, true, ScaleUp
		p.Weight = Permille(1000 * s.Count(p.Green).Healthy / max(1, s.Count("").Healthy))
		if before == nil {
			break
		}
		b := *before.Progress
		if b.Green == p.Blue {
			b.swap()
		}
		if b.Blue == p.Blue && b.Green == p.Green {
			p.Weight, p.TestWeight, p.TestBegun, p.Steps, p.Regrow = b.Weight, b.TestWeight, b.TestBegun, b.Steps, b.Stage == CleanUp
		}
	case slices.ContainsFunc(s.Deployments, func(d Deployment) bool {
		return d.ID != green && d.ID != p.Blue && s.Count(d.ID).Present > 0
	}):
		p.Stage = Reconcile
	}
	return p
}

// swap exchanges blue and green, with their parts.
func (p *Progress) swap() {
	p.Blue, p.Green, p.Weight, p.TestWeight = p.Green, p.Blue, Whole-p.Weight, Whole-p.TestWeight
}

// proper is the deployment whose copies have the connections when a deployment begins: the last one that
// was completed and has healthy copies, or the one with the most; empty if there are no copies.
func (s *State) proper() (id string) {
	for _, d := range s.Completed {
		if d.ID != s.Primary().ID && s.Count(d.ID).Healthy > 0 {
			return d.ID
		}
	}
	most := Counts{}
	for _, d := range s.Deployments {
		if c := s.Count(d.ID); d.ID != s.Primary().ID && c.Present > 0 && (id == "" || c.Healthy > most.Healthy) {
			id, most = d.ID, c
		}
	}
	if back, ok := s.RollbackTarget(); ok && id == "" { // of none there are copies
		if _, listed := s.Deployment(back.ID); listed {
			return back.ID
		}
	}
	return id
}

// begin begins a stage of the attempt.
func (s *State) begin(at time.Time, a *Attempt, r row) {
	p := a.Progress
	p.Stage, p.Since, a.Times.UpdatedAt = r.stage, at, at
	was := p.Weight
	if r.begin != nil {
		r.begin(s, a)
	}
	if p.Weight != was {
		s.say(at, "(deployment %s) gets %s of the connections.", p.Green, p.Weight)
	}
	s.callHooks(at, a)
	if !s.stageDone(at, a, r) {
		s.say(at, "(deployment %s) is in the stage %s.", p.Green, r.stage)
	}
}

// stageDone reports whether the next stage may begin.
func (s *State) stageDone(at time.Time, a *Attempt, r row) bool {
	return a.answered() && (r.done == nil || r.done(s, a, at))
}

// advance moves the attempt on through its stages, as far as they are done.
func (s *State) advance(at time.Time) {
	for a := s.staged(); a != nil; a = s.staged() {
		s.expire(at, a)
		if why := s.obstacle(at, a); why != "" {
			s.giveUp(at, failure{why, why, why}, true)
			continue
		}
		rows, i := a.row()
		if !s.stageDone(at, a, rows[i]) {
			return
		}
		a.prune()
		switch next := i + 1; {
		case next == len(rows):
			s.complete(at)
			return
		case rows[i].stage == Production && !a.Progress.Back && a.Progress.Weight < Whole:
			s.begin(at, a, rows[i-1])
		default:
			s.begin(at, a, rows[next])
		}
	}
}

// obstacle explains why the attempt is given up; empty if it is not. On the way back nothing is.
func (s *State) obstacle(at time.Time, a *Attempt) string {
	if a.Progress.Back {
		return ""
	}
	if why := a.refused(); why != "" {
		return why
	}
	rows, i := a.row()
	late := a.deadline()
	switch {
	case a.Progress.Stage == CleanUp:
	case !late.IsZero() && !at.Before(late) && rows[i].done != nil && !rows[i].done(s, a, at):
		return fmt.Sprintf("the stage %s was not done after %s", a.Progress.Stage, StageLimit)
	case !at.Before(a.Times.CreatedAt.Add(AttemptLimit)):
		return fmt.Sprintf("the deployment was not done after %d days", AttemptLimit/(24*time.Hour))
	}
	return ""
}

// failure explains why an attempt is given up: in the history, in the event, and for the deployment that it
// returns to.
type failure struct{ why, event, cause string }

// giveUp ends the attempt without a success: for the deployment of RollbackTarget, if back says so and
// there is one.
func (s *State) giveUp(at time.Time, f failure, back bool) {
	p := &s.Deployments[0]
	p.Rollout, p.UpdatedAt, p.Reason = Failed, at, f.why
	s.say(at, "(deployment %s) deployment failed: %s.", p.ID, f.event)
	to, ok := s.RollbackTarget()
	switch {
	case !back:
		s.stopAttempt(at, f.why)
	case !ok:
		s.stopAttempt(at, f.why+"; "+ErrNoReturn.Error())
		s.History[len(s.History)-1].Status = AttemptNotReturned
	default:
		id := p.ID
		s.say(at, "rolling back to (deployment %s).", to.ID)
		p.FailedAt = at
		s.Rollbacks++
		s.restore(at, to, s.Config.Method, f.why)
		s.Deployments[0].Rollback = true
		s.Deployments[0].Reason = fmt.Sprintf("deployment %s failed and was rolled back: %s", id, f.cause)
	}
}

// wants is the number of copies that a deployment is to have while an attempt with two sets is under way.
func (s *State) wants(a *Attempt, id string) int {
	p := a.Progress
	last := p.Stage == CleanUp
	switch {
	case id == p.Blue && (p.Back || !last):
		return s.target()
	case id == p.Blue:
		return 0
	case p.Back && !last:
		return min(s.target(), s.keptOf(id)) // they stay, and are not replaced
	case id == p.Green && !p.Back && p.Stage != Reconcile && p.Stage != PreScaleUp:
		return s.target()
	case id != p.Green && s.gathers(p):
		return min(s.target(), s.keptOf(id))
	}
	return 0
}

// keptOf counts the copies of a deployment that count towards what is desired.
func (s *State) keptOf(id string) (n int) {
	for _, t := range s.Tasks {
		if t.kept() && t.Deployment == id {
			n++
		}
	}
	return n
}

// stopSets stops the copies of each revision that are too many.
func (s *State) stopSets(at time.Time, a *Attempt, stop func(*Task, string)) {
	surplus := make(map[string]int)
	for _, d := range s.Deployments {
		surplus[d.ID] = s.keptOf(d.ID) - s.wants(a, d.ID)
	}
	for _, t := range s.expendable() {
		n, mine := s.wants(a, t.Deployment), s.Count(t.Deployment).Healthy
		// The last healthy copies stay until there are others.
		needed := t.Healthy() && mine <= n || t.Healthy() && s.target() > 0 && s.Count("").Healthy <= 1
		switch {
		case t.spared(at) || needed:
		case t.Failed && (n == 0 || s.Count(t.Deployment).Present > n):
			stop(t, "it failed container health checks")
		case t.Failed:
		case surplus[t.Deployment] > 0:
			surplus[t.Deployment]--
			if n == 0 {
				stop(t, "replaced by deployment "+s.Primary().ID)
			} else {
				stop(t, s.surplusCause())
			}
		}
	}
}

// lacking is the number of copies of each deployment that are to be made.
func (s *State) lacking() map[string]int {
	n := make(map[string]int)
	if a := s.staged(); a != nil && !a.rolls() {
		for _, d := range s.Deployments {
			wanted := s.wants(a, d.ID)
			n[d.ID] = min(wanted-s.keptOf(d.ID), wanted+1-s.Count(d.ID).Present)
		}
		return n
	}
	p := s.Primary()
	_, most := s.Limits()
	if a := s.staged(); a == nil || a.Progress.Stage != PreScaleUp {
		room := most - s.Count("").Present
		n[p.ID] = min(s.target()-s.keptOf(p.ID), room)
		if p.Numbered != nil {
			n[p.ID] = min(len(s.missing()), max(0, room))
		}
	}
	return n
}

// String is the part in percent.
func (p Permille) String() string { return fmt.Sprintf("%g %%", p.Percent()) }

// wakeStage tells when the attempt is to be looked at again.
func (s State) wakeStage(sooner func(time.Time)) {
	a := s.staged()
	if a == nil {
		return
	}
	if !a.Progress.Back {
		sooner(a.Progress.Since.Add(a.Wait()))
		sooner(a.deadline())
		sooner(a.Times.CreatedAt.Add(AttemptLimit))
	}
	if a.asks() && a.Alarms.op == idle {
		sooner(a.Alarms.NextCheck)
	}
	for _, c := range a.Progress.Calls {
		if c.Open() {
			sooner(c.ExpiresAt)
			sooner(c.NextCall)
		}
	}
}

// moveTimes moves the times that an attempt waits for, because the clock was set.
func (s *State) moveTimes(by time.Duration) {
	s.moveRest(by)
	a := s.staged()
	if a == nil {
		return
	}
	move := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	p := a.Progress
	move(&p.Since)
	for i := range p.Calls {
		if c := &p.Calls[i]; c.Open() {
			move(&c.StartedAt)
			move(&c.ExpiresAt)
			move(&c.NextCall)
		}
	}
	if a.Alarms != nil {
		move(&a.Alarms.NextCheck)
	}
}

// mendClock moves the times of a sleep, and of an attempt whose stage begins, in the future: the clock was set back while the
// agent did not run. The stage begins again then.
func (s *State) mendClock(at time.Time) {
	if s.Rest.Since.After(at) {
		s.Rest.Since = at
	}
	if a := s.staged(); a != nil && at.Before(a.Progress.Since) {
		s.moveTimes(at.Sub(a.Progress.Since))
	}
}
