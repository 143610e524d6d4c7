package notice

import "time"

// Condition is a reason for a notice.
type Condition string

// The conditions.
const (
	Failed         Condition = "failed"
	Unhealthy      Condition = "unhealthy"
	RolledBack     Condition = "rolled-back"
	CrashLoop      Condition = "crash-loop"
	ScheduleMissed Condition = "schedule-missed"
	ScheduleFailed Condition = "schedule-failed"
	Certificate    Condition = "certificate"
	Disk           Condition = "disk"
	PodmanAway     Condition = "podman-away"
	UpdatePending  Condition = "update-pending"
)

// Kind is a kind of subjects.
type Kind string

// The kinds.
const (
	Task     Kind = "task"
	Service  Kind = "service"
	Schedule Kind = "schedule"
	Host     Kind = "host"
)

// Fact is the description of a condition.
type Fact struct {
	Condition Condition
	// Kinds are the kinds of its subjects.
	Kinds []Kind
	// Bad and Well are the words of a notice and of its resolution, after the name of the subject.
	Bad, Well string
	// Looked: it is no event but a state, which Observe is told of.
	Looked bool
	// once: it is told once, however long it lasts.
	once bool
	// settle is the time for which it must have been well before that is told.
	settle time.Duration
	// Alert is the rule of Prometheus for the same.
	Alert Alert
}

// Alert is an alert rule of Prometheus.
type Alert struct{ Name, Expr, For, Severity, Summary, Description string }

// settleTime is the time for which something must have been well before that is told.
const settleTime = time.Minute

// Facts has all conditions, in the order in which they are documented.
var Facts = []Fact{
	{Failed, []Kind{Task, Service, Schedule}, "has failed", "runs again", false, false, settleTime, Alert{
		"PodtaskContainersFail", `increase(podtask_container_exits_total{outcome="failure"}[15m]) > 5`, "", "warning",
		"{{ $value | humanize }} containers on {{ $labels.instance }} failed within 15 minutes", "`podtask events --stream=false --since 15m --filter status=stopped` lists them.",
	}},
	{Unhealthy, []Kind{Task, Service, Schedule}, "is unhealthy", "is healthy again", false, false, settleTime, Alert{
		"PodtaskUnhealthyTasks", `podtask_tasks_health{health="UNHEALTHY"} > 0`, "5m", "warning",
		"{{ $value }} tasks on {{ $labels.instance }} are unhealthy", "`podtask ps --filter health=unhealthy` lists them.",
	}},
	{RolledBack, []Kind{Service, Task}, "was rolled back", "has been updated", false, false, 0, Alert{
		"PodtaskServiceRolledBack", "increase(podtask_service_rollbacks_total[1h]) > 0", "", "warning",
		"Service {{ $labels.service }} on {{ $labels.instance }} was rolled back to its previous revision", "The new revision was not healthy. `podtask service inspect {{ $labels.service }}` shows why.",
	}},
	{CrashLoop, []Kind{Task, Service, Schedule}, "fails again and again", "has not failed for 10 minutes", false, false, loopTime, Alert{
		"PodtaskCrashLoop", "increase(podtask_transitions_total{kind=\"container\",status=\"RESTARTING\"}[10m]) >= 5", "", "warning",
		"Containers on {{ $labels.instance }} were restarted {{ $value | humanize }} times within 10 minutes", "`podtask events --stream=false --since 10m --filter status=restarting` lists them.",
	}},
	{ScheduleMissed, []Kind{Schedule}, "has missed a run", "runs again", false, false, 0, Alert{
		"PodtaskScheduleMissed", `podtask_schedule_runs{outcome="missed"} > podtask_schedule_runs{outcome="missed"} offset 1h`, "", "warning",
		"Schedule {{ $labels.schedule }} on {{ $labels.instance }} has missed a run", "`podtask schedule history {{ $labels.schedule }}` says why.",
	}},
	{ScheduleFailed, []Kind{Schedule}, "has failed", "has succeeded again", false, false, 0, Alert{
		"PodtaskScheduleFailed", `podtask_schedule_runs{outcome="failure"} > podtask_schedule_runs{outcome="failure"} offset 1h`, "", "warning",
		"A run of schedule {{ $labels.schedule }} on {{ $labels.instance }} has failed", "`podtask schedule history {{ $labels.schedule }}` lists its runs.",
	}},
	{Certificate, []Kind{Host}, "has a problem with its certificate", "has a good certificate again", true, false, settleTime, Alert{
		"PodtaskCertificateProblem", "podtask_ingress_certificate_problem > 0", "15m", "critical",
		"The certificate of {{ $labels.name }} on {{ $labels.instance }} is missing, ends within a week, or is wrong ({{ $labels.issuer }})", "`podtask ingress ls` shows what is wrong with it.",
	}},
	{Disk, []Kind{Host}, "is almost full", "has space again", true, false, settleTime, Alert{
		"PodtaskDiskFull", "podtask_notify_condition{condition=\"disk\"} > 0", "5m", "critical",
		"A disk on {{ $labels.instance }} is almost full", "`podtask doctor` and `podman system df` say what takes the space.",
	}},
	{PodmanAway, []Kind{Host}, "does not answer", "answers again", true, false, settleTime, Alert{
		"PodtaskPodmanAway", "podtask_notify_condition{condition=\"podman-away\"} > 0", "2m", "critical",
		"Podman on {{ $labels.instance }} does not answer", "`podtask doctor` says why. Tasks run on, but nothing is started, stopped or checked.",
	}},
	{UpdatePending, []Kind{Host}, "has an update that waits", "has no update that waits", true, true, settleTime, Alert{
		"PodtaskUpdatePending", "time() - podtask_image_update_pending_since_seconds > 14 * 86400", "1h", "warning",
		"An update of {{ $labels.for }} on {{ $labels.instance }} to another image of {{ $labels.image }} has waited for two weeks", "`podtask image pending` says why.",
	}},
}

// FactOf returns what is known of a condition; false if there is none of that name.
func FactOf(c Condition) (Fact, bool) {
	for _, f := range Facts {
		if f.Condition == c {
			return f, true
		}
	}
	return Fact{}, false
}

// Conditions are the names of all conditions.
func Conditions() (names []string) {
	for _, f := range Facts {
		names = append(names, string(f.Condition))
	}
	return names
}
