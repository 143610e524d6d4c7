package limits

import (
	"github.com/podtask/podtask/pkg/lifecycle"
)

// The values of lifecycle.Options.Limits.
const (
	Enforce    = "enforce"           // refuse a task whose limits this host cannot apply
	BestEffort = "best-effort"       // apply what can be applied, and say what cannot
	Off        = lifecycle.LimitsOff // apply none
)
