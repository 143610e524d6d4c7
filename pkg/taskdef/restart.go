package taskdef

import (
	"math"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// RestartPolicy says when a container that exited is started again.
type RestartPolicy struct {
	// IgnoredExitCodes lists the exit codes after which it is not restarted; at most 50.
	IgnoredExitCodes []int `json:"ignoredExitCodes,omitempty"`
	// AttemptPeriod is the least time that a container must have run to be restarted: 60 s to 1800 s, default 300 s (ECS
	// restart tracker).
	AttemptPeriod time.Duration `json:"attemptPeriod"`
	// BackOff (x-podtask) is the pause, 1 s to 300 s, before a container is restarted
	// that ran for less than AttemptPeriod; it doubles with each such run in a row up to
	// 5 minutes. 0, as on ECS: such a container is not restarted at all.
	BackOff time.Duration `json:"backOff,omitempty"`
	// MaxCount (x-podtask) is how often the container is restarted in all; 0: any number of times.
	MaxCount int `json:"maxCount,omitempty"`
	// FirstAtOnce, as in Kubernetes: the first restart, and each after a run of
	// AttemptPeriod, does not wait. BackOff is the pause before the one after it.
	FirstAtOnce bool `json:"firstAtOnce,omitempty"`
	// Rules, of Kubernetes, have the container restarted after exit codes that
	// IgnoredExitCodes or RulesOnly would leave it stopped after; at most 20.
	Rules []RestartRule `json:"rules,omitempty"`
	// RulesOnly: it is restarted only where a rule says so.
	RulesOnly bool `json:"rulesOnly,omitempty"`
}

// RestartRule has a container restarted after some exit codes.
type RestartRule struct {
	// ExitCodes are 0 to 255 each, at most 256.
	ExitCodes []int `json:"exitCodes,omitempty"`
	// Not: the rule is about all exit codes but these.
	Not bool `json:"not,omitempty"`
}

// Ignores reports whether a container that has ended with this exit code is not started again.
func (p *RestartPolicy) Ignores(code int) bool {
	for _, r := range p.Rules {
		if slices.Contains(r.ExitCodes, code) != r.Not {
			return false
		}
	}
	return p.RulesOnly || slices.Contains(p.IgnoredExitCodes, code)
}

func decodeRestartPolicy(c cursor) *RestartPolicy {
	if !c.want(doctree.Object, `write {"enabled": true}`) {
		return nil
	}
	p := RestartPolicy{AttemptPeriod: decodeSeconds(c.at("restartAttemptPeriod"), 300*time.Second)}
	if x := c.at(extensionMember); x.present() {
		x.want(doctree.Object, "")
		p.BackOff = decodeSeconds(x.at("backOff"), 0)
		p.MaxCount = int(x.at("maxCount").integer(0, 0))
	}
	for _, item := range c.at("ignoredExitCodes").list("write a list of exit codes") {
		p.IgnoredExitCodes = append(p.IgnoredExitCodes, int(item.integer(0, 0)))
	}
	enabled := c.at("enabled")
	if !enabled.present() && !c.node.Empty() {
		c.wrong("enabled is missing", `write "enabled": true`)
	}
	if !enabled.flag(false) {
		return nil
	}
	return &p
}

func checkRestartPolicy(r rules, p *RestartPolicy) {
	if p == nil {
		return
	}
	in := r.in("restartPolicy")
	in.in("restartAttemptPeriod").within(seconds(p.AttemptPeriod), 60, 1800, " seconds")
	if p.BackOff != 0 {
		in.in(extensionMember).in("backOff").within(seconds(p.BackOff), 1, 300, " seconds")
	}
	in.in(extensionMember).in("maxCount").require(0 <= p.MaxCount && p.MaxCount <= math.MaxInt32, "", "maxCount is out of range: it must be 0, for any number of times, or more")
	in.in("ignoredExitCodes").require(len(p.IgnoredExitCodes) <= 50, "", "there are %d ignoredExitCodes, more than 50", len(p.IgnoredExitCodes))
	for i, code := range p.IgnoredExitCodes {
		in.in("ignoredExitCodes").item(i).require(0 <= code && code <= 255, "", "%d is not an exit code: they go from 0 to 255", code)
	}
	in.require(len(p.Rules) <= 20, "", "there are %d rules of restarts, more than 20", len(p.Rules))
	for _, rule := range p.Rules {
		in.require(len(rule.ExitCodes) <= 256, "", "a rule of restarts has %d exit codes, more than there are", len(rule.ExitCodes))
		for _, code := range rule.ExitCodes {
			in.require(0 <= code && code <= 255, "", "%d is not an exit code: they go from 0 to 255", code)
		}
	}
}
