package admission

import (
	"strconv"
	"time"
)

// Quota is a limit on something of which each container takes a part: for example the
// kernel's keys of a user. What others of the host use of it counts as well.
type Quota struct {
	// Name is its name in messages, such as kernel.keys.maxkeys.
	Name string
	// Most is the limit; Used is what tasks and others use of it now, Unlimited (-1) if
	// that is not known.
	Most, Used int64
	// PerTask and PerContainer are what the infra container of a task and each of its
	// containers take.
	PerTask, PerContainer int64
	// Fix is the advice for raising the limit.
	Fix string
}

// of returns what a task takes of the quota.
func (k Quota) of(n Need) int64 {
	if n.Containers == 0 {
		return 0
	}
	if n.NoInfra {
		return n.Containers * k.PerContainer
	}
	return k.PerTask + n.Containers*k.PerContainer
}

// settleTime is the time that an admitted task takes until its containers run and their use of a
// quota shows. A task that Budget.Starting knows to be starting may take startTime, on a host that
// is busy or pulls an image.
const (
	settleTime = 30 * time.Second
	startTime  = 15 * time.Minute
)

// held returns what the admitted tasks take of a quota together, and who they are.
func (k Quota) held(q Queue) (sum int64, by []string) {
	for _, e := range q.Entries {
		if n := k.of(e.Need); e.Held && n > 0 {
			sum, by = sum+n, append(by, e.label())
		}
	}
	return sum, by
}

// settled reports whether the use of all admitted tasks shows in what is used of a quota.
func (b Budget) settled(k Quota, q Queue, at time.Time) bool {
	for _, e := range q.Entries {
		age := at.Sub(e.Since)
		switch {
		case !e.Held || k.of(e.Need) == 0 || age < 0 || age >= startTime:
		case age < settleTime, b.Starting != nil && b.Starting(e.Task):
			return false
		}
	}
	return true
}

// others estimates what others than admitted tasks use of a quota. What is used beyond the
// sum of the admitted tasks is certainly theirs. As long as some tasks are still starting,
// and so use less than their sum, the estimate does not decrease.
func (b Budget) others(k Quota, q Queue, held int64, at time.Time) int64 {
	now, before := max(0, k.Used-held), q.Others[k.Name]
	if now >= before || b.settled(k, q, at) {
		return now
	}
	return before
}

// noteOthers remembers what others use, for the time in which tasks start.
func (b Budget) noteOthers(q Queue, at time.Time) Queue {
	others := map[string]int64{}
	for _, k := range b.Quotas {
		held, _ := k.held(q)
		if n := b.others(k, q, held, at); n > 0 {
			others[k.Name] = n
		}
	}
	if len(others) == 0 {
		others = nil
	}
	q.Others = others
	return q
}

// quotaShortages are the quotas of which there is too little for a need.
func (b Budget) quotaShortages(q Queue, n Need, at time.Time) (short []Shortage) {
	for _, k := range b.Quotas {
		want := k.of(n)
		if want == 0 {
			continue
		}
		held, by := k.held(q)
		others := b.others(k, q, held, at)
		free := max(0, k.Most-held-others)
		if want <= free {
			continue
		}
		s := Shortage{What: k.Name, Want: strconv.FormatInt(want, 10) + " of " + k.Name, Free: strconv.FormatInt(free, 10), Of: strconv.FormatInt(k.Most, 10), Holders: by}
		if others > 0 {
			s.Others = strconv.FormatInt(others, 10)
		}
		short = append(short, s)
	}
	return short
}
