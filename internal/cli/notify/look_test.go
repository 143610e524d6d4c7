package notify

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/ingress"
)

func TestFullDisks(t *testing.T) {
	t.Parallel()
	space := func(dir string) (free uint64, files int, err error) {
		switch dir {
		case "/full":
			return 1 << 20, 50, nil
		case "/files":
			return 1 << 40, 1, nil
		case "/gone":
			return 0, 0, errors.New("no such directory")
		}
		return minFree, minFiles, nil
	}
	got := fullDisks(map[string]string{"a": "/full", "b": "/files", "c": "/gone", "d": "/enough"}, space)
	if names := slices.Sorted(maps.Keys(got)); strings.Join(names, " ") != "a b" || got["a"] != "1MiB of /full are free" || got["b"] != "1% of the files of /files are free" {
		t.Errorf("%q", got)
	}
}

func TestBadCertificates(t *testing.T) {
	t.Parallel()
	got := badCertificates([]ingress.Certificate{
		{Name: "good.example.org", Usable: true},
		{Name: "new.example.org", Problem: "it is being obtained", Pending: true},
		{Name: "bad.example.org", Problem: "the name leads elsewhere"},
		{Name: "old.example.org", Problem: "it could not be renewed", Usable: true},
	})
	want := map[string]string{"bad.example.org": "the name leads elsewhere", "old.example.org": "it could not be renewed"}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
