package libpod_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// The journal may lag behind a container that has just ended, but it takes in order what
// it is sent: the log is read when Podman's event of the end can be.
func TestLogIsReadWhenTheJournalHasTheEnd(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		driver, status string
		want           string // the requests
		ended          func(now time.Time) time.Time
	}{
		{"journald", "exited", "json events logs", func(now time.Time) time.Time { return now }},
		{"journald", "exited", "json logs", func(now time.Time) time.Time { return now.Add(-time.Hour) }},
		{"journald", "running", "json logs", func(time.Time) time.Time { return time.Time{} }},
		{"k8s-file", "exited", "json logs", func(now time.Time) time.Time { return now }},
	} {
		t.Run(fmt.Sprint(tc.driver, " ", tc.status, " ", tc.want), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
				what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				mu.Lock()
				asked = append(asked, what)
				mu.Unlock()
				switch what {
				case "json":
					now := time.Now() // a parallel test may have waited long for its turn
					reply(w, 200, fmt.Sprintf(`{"Id": "c1", "Name": "a", "State": {"Status": %q, "StartedAt": %q, "FinishedAt": %q},
						"Config": {"Labels": {"podtask.task-id": "t"}}, "HostConfig": {"LogConfig": {"Type": %q}}}`,
						tc.status, now.Add(-2*time.Hour).Format(time.RFC3339Nano), tc.ended(now).Format(time.RFC3339Nano), tc.driver))
				case "events":
					if f := r.URL.Query().Get("filters"); !strings.Contains(f, "c1") || !strings.Contains(f, "died") {
						t.Errorf("events are asked for with the filters %s", f)
					}
					reply(w, 200, `{"Type": "container", "Action": "died", "Actor": {"ID": "c1"}}`+"\n")
				default:
					w.WriteHeader(200)
				}
			})
			if err := c.Logs(soon(t), "a", libpod.LogOptions{}, func(libpod.LogLine) {}); err != nil {
				t.Error(err)
			}
			seen, err := c.InspectContainer(soon(t), "a")
			if err == nil {
				err = c.Logs(soon(t), "a", libpod.LogOptions{Seen: seen}, func(libpod.LogLine) {})
			}
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(asked, " "); got != tc.want+" "+tc.want { // the second one no more than the first
				t.Errorf("asked for %s, want %s twice", got, tc.want)
			}
		})
	}
}
