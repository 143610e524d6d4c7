package members

import (
	"slices"
	"testing"
)

var format = Format{Name: "f", Rows: []Row{
	{"Job.spec", Honored, "", ""}, {"JobSpec.suspend", Honored, "", ""}, {"CronJobSpec.suspend", Lost, "`x` is lost", "do y"}, {"JobSpec.other", Refused, "wrong", ""},
}}

func names(rows []Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.Member)
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	for member, want := range map[string][]string{
		"suspend": {"JobSpec.suspend", "CronJobSpec.suspend"}, "jobspec.Suspend": {"JobSpec.suspend"}, "pend": nil, "Job": nil, "job.spec": {"Job.spec"},
	} {
		if got := names(format.Find(member)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", member, got)
		}
	}
	if got := names(format.Below("jobspec")); !slices.Equal(got, []string{"JobSpec.suspend", "JobSpec.other"}) {
		t.Error(got)
	}
	if got := format.Suggest("JobSpec.suspnd"); got != `did you mean "suspend"?` {
		t.Error(got)
	}
	if c := format.Counts(); c[Honored] != 2 || c[Lost] != 1 || c[Refused] != 1 || c[Needed] != 0 {
		t.Error(c)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	rows := []Row{{"A.a", Honored, "", ""}, {"A.a", Honored, "", ""}, {"A.b", Lost, "", ""}, {"A.c", Honored, "", ""}}
	want := []string{"A.a has two rows", "A.b is lost and has no note", "A.c is not a member of the schema", "A.d has no row"}
	if got := Problems(rows, []string{"A.a", "A.b", "A.d"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Plain(format.Rows[2].Note); got != `"x" is lost` {
		t.Error(got)
	}
}
