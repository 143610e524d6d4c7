package schedule

import (
	"os/exec"
	"testing"

	"github.com/podtask/podtask/internal/define/pod"
)

// What people read of the times of a schedule has their time zone, because the next times are shown in that of the host.
func TestTheTimesOfAScheduleNameTheirZone(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	c := SystemdCalendar{Path: "/usr/bin:/bin"}
	for _, x := range []struct {
		times Times
		cron  *pod.CronJob
		want  string
	}{
		{Times{At: []string{"Mon..Fri 03:00", "12:00"}, Zone: "Europe/Berlin"}, nil, "Mon..Fri 03:00; 12:00 Europe/Berlin"},
		{Times{At: []string{"Mon..Fri 03:00"}}, nil, "Mon..Fri 03:00"},
		{Times{}, &pod.CronJob{Schedule: "0 3 * * *", TimeZone: "Asia/Tokyo", ConcurrencyPolicy: "Forbid"}, "0 3 * * * Asia/Tokyo"},
	} {
		var s State
		if err := x.times.Set(t.Context(), c, &s, x.cron); err != nil || s.Source != x.want {
			t.Errorf("%q, %v; want %q", s.Source, err, x.want)
		}
	}
}
