package libpod_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A service that was killed during a start leaves files where the root of the container is mounted,
// and containers/storage refuses to remove it.
func TestRemovalEmptiesTheMountPointInItsWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		inside  bool // the directory is in Podman's storage
		want    string
		removes int32
	}{
		{"in the storage", true, "", 2},
		{"elsewhere", false, "podman unshare find", 1},
	} {
		home := t.TempDir()
		root := filepath.Join(home, "storage")
		merged := filepath.Join(root, "overlay", "abc", "merged")
		if !tt.inside {
			merged = filepath.Join(home, "other", "merged")
		}
		if err := os.MkdirAll(filepath.Join(merged, "etc"), 0o700); err != nil {
			t.Fatal(err)
		}
		stray := filepath.Join(merged, "etc", "hosts")
		if err := os.WriteFile(stray, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		outside := filepath.Join(home, "kept")
		if err := os.WriteFile(outside, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(home, filepath.Join(merged, "link")); err != nil {
			t.Fatal(err)
		}
		var removes atomic.Int32
		c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/info"):
				reply(w, 200, fmt.Sprintf(`{"host":{},"store":{"graphRoot":%q},"version":{}}`, root))
			case r.Method == http.MethodDelete:
				removes.Add(1)
				if _, err := os.Stat(stray); err == nil {
					reply(w, 500, fmt.Sprintf(`{"cause":"directory not empty","message":"removing storage for container \"a\": replacing mount point \"%s\": directory not empty","response":500}`, merged))
					return
				}
				reply(w, 200, `[{"Id":"a"}]`)
			default:
				reply(w, 404, `{"cause":"no such container","message":"no such container","response":404}`)
			}
		})
		err := c.FreeStorage(soon(t), "a")
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), merged)) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if removes.Load() != tt.removes {
			t.Errorf("%s: %d removals", tt.name, removes.Load())
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("%s: what a link leads to was removed: %v", tt.name, err)
		}
	}
}
