package service

import (
	"encoding/json"
	"time"
)

// Strategy is the way in which a deployment replaces the copies of the one before it.
type Strategy string

// The strategies of ECS. The old revision is called blue, the new one green. All but Rolling bring up as
// many green copies as there are blue ones before the first connection goes to them.
const (
	Rolling   Strategy = "ROLLING"    // copy after copy, also for the empty value
	BlueGreen Strategy = "BLUE_GREEN" // all connections at once
	Linear    Strategy = "LINEAR"     // in equal steps
	Canary    Strategy = "CANARY"     // a small part, then the rest
)

// Permille is a part of the connections, or of the copies, in tenths of a percent: 0 to 1000.
type Permille int

// Whole is all of them.
const Whole Permille = 1000

// Percent returns the part in percent, as ECS has it.
func (p Permille) Percent() float64 { return float64(p) / 10 }

// Method is the way in which deployments of a service are done. A deployment keeps the one that the service has when
// it begins.
type Method struct {
	Strategy Strategy `json:"strategy,omitempty"`
	// Step is for Linear and Canary.
	Step Increment `json:"step,omitzero"`
	// Bake is the time for which both revisions stay at full size when green has all connections; up to 24 h.
	Bake time.Duration `json:"bake,omitempty"`
	// Hooks are at most 10 that are called and 10 pauses.
	Hooks []Hook `json:"hooks,omitempty"`
	// Early ends a Rolling deployment before all copies are replaced.
	Early  EarlySuccess `json:"early,omitzero"`
	Alarms Alarms       `json:"alarms,omitzero"`
}

// atOnce returns the method that brings all connections to the copies of another revision as soon as those are healthy,
// without hooks, alarms and waits. A rolling deployment without them is as it is.
func (m Method) atOnce() Method {
	if m.rolls() {
		return Method{Strategy: m.Strategy}
	}
	return Method{Strategy: BlueGreen}
}

// Increment is the part of the connections that green gets at a time.
type Increment struct {
	// Part is that of each step of Linear (3 % to 100 %), or of the first one of Canary (0.1 % to 100 %).
	Part Permille `json:"part"`
	// Bake is the time that the service waits after a step but the last; up to 24 h.
	Bake time.Duration `json:"bake,omitempty"`
}

// The steps of ECS for a request that does not say.
var (
	LinearStep = Increment{Part: 100, Bake: 6 * time.Minute}
	CanaryStep = Increment{Part: 50, Bake: 10 * time.Minute}
)

// Stage is a step in the progress of a deployment.
type Stage string

// The lifecycle stages of ECS, in their order. PreProduction and Production are repeated for each step.
const (
	Reconcile      Stage = "RECONCILE_SERVICE"
	PreScaleUp     Stage = "PRE_SCALE_UP"
	ScaleUp        Stage = "SCALE_UP"
	PostScaleUp    Stage = "POST_SCALE_UP"
	TestShift      Stage = "TEST_TRAFFIC_SHIFT"
	PostTestShift  Stage = "POST_TEST_TRAFFIC_SHIFT"
	PreProduction  Stage = "PRE_PRODUCTION_TRAFFIC_SHIFT"
	Production     Stage = "PRODUCTION_TRAFFIC_SHIFT"
	PostProduction Stage = "POST_PRODUCTION_TRAFFIC_SHIFT"
	Bake           Stage = "BAKE_TIME"
	CleanUp        Stage = "CLEAN_UP"
)

// Hook is asked in stages of a deployment whether it may continue.
type Hook struct {
	// Name is unique in the service.
	Name   string     `json:"name"`
	Stages []Stage    `json:"stages"`
	Target HookTarget `json:"target"`
	// Timeout is that of the hook in a stage, all calls together; 0 stands for DefaultHookTimeout. Up to
	// 24 h, or 14 days for a pause.
	Timeout   time.Duration `json:"timeout,omitempty"`
	OnTimeout TimeoutAction `json:"onTimeout,omitempty"`
	// Details are any JSON value that a call gets.
	Details json.RawMessage `json:"details,omitempty"`
	// Role is the role that a client of the ECS API gave with an ARN. Nothing uses it.
	Role string `json:"role,omitempty"`
}

// HookTarget is the program, URL, function or task that answers a hook.
type HookTarget struct {
	Kind HookKind `json:"kind"`
	// Value is the ARN, the URL, or the task definition FAMILY:REVISION; empty for a pause.
	Value string `json:"value,omitempty"`
	// Command is the program with its arguments, an absolute path; it may stand for an ARN too.
	Command []string `json:"command,omitempty"`
	// Source is what the table of references had for an ARN when the service was created or updated, if not a
	// Command: a URL.
	Source string `json:"source,omitempty"`
}

// HookKind is the kind of a target.
type HookKind string

// The kinds of targets.
const (
	HookLambda  HookKind = "AWS_LAMBDA" // an ARN, which a [[reference]] answers
	HookPause   HookKind = "PAUSE"      // a user, with ContinueRequested
	HookCommand HookKind = "COMMAND"    // a program of this host
	HookURL     HookKind = "URL"        // an HTTP endpoint
	HookTask    HookKind = "TASK"       // a task that has to end with 0
)

// TimeoutAction is the decision when the time of a hook is over.
type TimeoutAction string

// The actions of ECS; the empty value stands for rollback.
const (
	TimeoutRollback TimeoutAction = "ROLLBACK"
	TimeoutContinue TimeoutAction = "CONTINUE"
)

const (
	// DefaultHookTimeout is that of a hook that does not say.
	DefaultHookTimeout = 24 * time.Hour
	// DefaultCallBackDelay is the pause before a hook that is in progress is called again.
	DefaultCallBackDelay = 30 * time.Second
	// StageLimit limits the time that a stage may last, without its hooks.
	StageLimit = 24 * time.Hour
	// AttemptLimit limits the time that an attempt may last.
	AttemptLimit = 30 * 24 * time.Hour
)

// EarlySuccess is ECS's earlySuccessCriteria.
type EarlySuccess struct {
	Enable bool `json:"enable"`
	// HealthyPercent of the desired copies have to be healthy, rounded up; at least one.
	HealthyPercent int `json:"healthyPercent,omitempty"`
	// Deferred: the deployment has succeeded before the old copies are gone.
	Deferred bool `json:"deferred,omitempty"`
}

// Alarms are asked while a deployment is under way.
type Alarms struct {
	Enable   bool    `json:"enable"`
	Rollback bool    `json:"rollback,omitempty"`
	Alarms   []Alarm `json:"alarms,omitempty"`
}

// Alarm is one of them, with who answers it: HookLambda stands for a name that a [[reference]] answers.
type Alarm struct {
	Name   string     `json:"name"`
	Target HookTarget `json:"target"`
}

// Threshold limits the number of tasks of a deployment that may fail before the circuit breaker ends it.
type Threshold struct {
	// Type is empty for BoundedPercent with 50.
	Type  ThresholdType `json:"type,omitempty"`
	Value int           `json:"value,omitempty"`
}

// ThresholdType is the unit of a threshold.
type ThresholdType string

// The types of ECS.
const (
	ThresholdCount   ThresholdType = "COUNT"             // that many tasks
	BoundedPercent   ThresholdType = "BOUNDED_PERCENT"   // of the desired count, at least 3 and at most 200 tasks
	UnboundedPercent ThresholdType = "UNBOUNDED_PERCENT" // of the desired count
)

// Progress is the progress of an attempt with stages: one that is not Rolling, or has hooks, a bake time or
// alarms. It is saved before anything follows from it.
type Progress struct {
	// Blue is the id of the deployment whose copies green replaces; empty if there is none. They stay blue and
	// green on the way back.
	Blue  string `json:"blue,omitempty"`
	Green string `json:"green"`
	// Stage is the present one, or the last one of an attempt that has ended, and Since when it began.
	Stage Stage     `json:"stage"`
	Since time.Time `json:"since"`
	// Steps counts the shifts of production that have begun.
	Steps int `json:"steps,omitempty"`
	// Weight and TestWeight are green's parts of the connections to the listeners and the test listeners;
	// blue has the rest.
	Weight     Permille `json:"weight"`
	TestWeight Permille `json:"testWeight"`
	TestBegun  bool     `json:"testBegun,omitempty"` // TestShift has begun
	// Back: green goes, and blue stays: the way back.
	Back bool `json:"back,omitempty"`
	// Regrow: on the way back all copies of blue have to be healthy before they get the connections,
	// because there were too few. Otherwise one is enough.
	Regrow bool `json:"regrow,omitempty"`
	// Calls are those of hooks, the latest of each hook in each stage and step, in their order.
	Calls []HookCall `json:"calls,omitempty"`
	// Details have the additions of answers in progress to the details of a hook, by its name.
	Details map[string]json.RawMessage `json:"details,omitempty"`
}

// HookCall is a hook in a stage.
type HookCall struct {
	// ID is ecs-pause- or ecs-lambda- and 43 characters of base64url, the same after a restart of the agent.
	ID    string `json:"id"`
	Hook  string `json:"hook"` // its name
	Stage Stage  `json:"stage"`
	Step  int    `json:"step,omitempty"` // of Production and PreProduction, from 1
	// Returning: it is called on the way back.
	Returning bool       `json:"returning,omitempty"`
	Status    HookStatus `json:"status"`
	// StartedAt is the time at which the stage called it first, ExpiresAt when its time is over, UpdatedAt when the status
	// changed last.
	StartedAt time.Time `json:"startedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Number counts the calls, from 1; NextCall is when the next one is due after an answer in progress.
	Number   int       `json:"number,omitempty"`
	NextCall time.Time `json:"nextCall,omitzero"`
	// Reason explains why it failed, with the end of what it printed.
	Reason string `json:"reason,omitempty"`

	op operation // a call is in flight
}

// HookStatus is the status of a hook in a stage.
type HookStatus string

// The statuses of ECS.
const (
	HookInProgress HookStatus = "IN_PROGRESS"
	HookAwaiting   HookStatus = "AWAITING_ACTION" // a pause
	HookSucceeded  HookStatus = "SUCCEEDED"
	HookFailed     HookStatus = "FAILED"
	HookTimedOut   HookStatus = "TIMED_OUT"
)

// HookRequest is the content of a call of a hook.
type HookRequest struct {
	HookCall
	Config Hook
	// Attempt is the number of the attempt, Green the id of its target's deployment.
	Attempt int
	Green   string
	// TestWeights and ProductionWeights are by the id of a deployment; empty where ECS leaves them out.
	TestWeights, ProductionWeights map[string]Permille
	// Details are those of the hook with what its answers have added; nil for none.
	Details json.RawMessage
}

// Group is the copies of a revision that connections are forwarded to, and its part of them.
type Group struct {
	Deployment string
	Weight     Permille // more than 0; those of all groups add up to Whole
	Copies     []string // ids, at least one
}

// AlarmUse is the state of the alarms of an attempt.
type AlarmUse struct {
	// Watched: the first answer was that all are well; otherwise they do not count in this attempt.
	Watched bool `json:"watched,omitempty"`
	// Raised are the names that ended the attempt, or kept it from being watched.
	Raised []string `json:"raised,omitempty"`
	// NextCheck is the time at which they are asked again.
	NextCheck time.Time `json:"nextCheck,omitzero"`
	// Problem explains why the latest check did not get an answer.
	Problem string `json:"problem,omitempty"`

	op operation
}
