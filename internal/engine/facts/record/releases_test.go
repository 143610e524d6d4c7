package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/guide"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// TestRecordsOfReleasesAreRead: testdata/releases has records that each released version
// wrote, one a line, and one of before the first release. This version reads and keeps them.
// UPDATE_GOLDEN=v1.2.3 writes those of the version to be released.
func TestRecordsOfReleasesAreRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "releases")
	if v := os.Getenv("UPDATE_GOLDEN"); regexp.MustCompile(`^v\d`).MatchString(v) {
		if err := os.WriteFile(filepath.Join(dir, v+".json"), recordsNow(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines(data) {
			n++
			s, err := Decode(line)
			if err != nil {
				t.Errorf("%s:%d: %v", file, n, err)
				continue
			}
			checkKept(t, fmt.Sprintf("%s:%d", file, n), line, s)
		}
	}
}

// checkKept reports members of a record that this version does not keep.
func checkKept(t *testing.T, place string, line []byte, s lifecycle.State) {
	t.Helper()
	again, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	var was, is any
	if json.Unmarshal(line, &was) != nil || json.Unmarshal(again, &is) != nil {
		t.Fatalf("%s is no JSON", place)
	}
	var lost []string
	missing("", was, is, &lost)
	if len(lost) > 0 {
		t.Errorf("%s: this version does not keep %s", place, strings.Join(lost, ", "))
	}
}

// missing collects the members of a document that another one does not have or has with
// another value.
func missing(path string, was, is any, lost *[]string) {
	switch was := was.(type) {
	case map[string]any:
		other, _ := is.(map[string]any)
		for name, v := range was {
			missing(path+"."+name, v, other[name], lost)
		}
	case []any:
		other, _ := is.([]any)
		for i, v := range was {
			if i >= len(other) {
				*lost = append(*lost, fmt.Sprintf("%s[%d]", path, i))
				return
			}
			missing(fmt.Sprintf("%s[%d]", path, i), v, other[i], lost)
		}
	default:
		if fmt.Sprint(was) != fmt.Sprint(is) {
			*lost = append(*lost, path)
		}
	}
}

// recordsNow are records of new tasks, one of each definition of the guide.
func recordsNow(t *testing.T) []byte {
	t.Helper()
	names, err := fs.Glob(guide.Files, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var out bytes.Buffer
	for i, name := range names {
		src, err := guide.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		task, report, err := taskdef.Parse(name, src)
		if err != nil || len(report.Needs) > 0 {
			continue // it needs something of the command line
		}
		s := lifecycle.New(fmt.Sprintf("%032x", i+1), strings.TrimSuffix(name, ".json"), task, lifecycle.Options{}, time.Unix(1_800_000_000, 0).UTC())
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(line); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}
