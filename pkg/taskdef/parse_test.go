package taskdef

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

var update = flag.Bool("update", false, "rewrite the .want files and docs/task-definition-members.md")

// fixtures runs f for each document of a folder of testdata.
func fixtures(t *testing.T, dir string, f func(t *testing.T, name string, src []byte)) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("testdata", dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		if strings.HasSuffix(name, ".want") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(filepath.Join("testdata", dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f(t, name, src)
		})
	}
}

// golden holds got against a file, or rewrites the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), run with -update if that is meant:\n%s", file, diff)
	}
}

func lines(ps []Problem) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

func TestValidDocumentsGiveTheirTaskAndWarnings(t *testing.T) {
	t.Parallel()
	fixtures(t, "valid", func(t *testing.T, name string, src []byte) {
		task, report, err := Settings{Lenient: name == "warnings.json"}.Parse(name, src)
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Check(); err != nil {
			t.Errorf("the parsed task fails Check: %v", err)
		}
		j, err := json.MarshalIndent(task, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata/valid", name+".want"), string(j)+"\n"+lines(report.Warnings))
	})
}

func TestInvalidDocumentsGiveAllTheirMessages(t *testing.T) {
	t.Parallel()
	fixtures(t, "invalid", func(t *testing.T, name string, src []byte) {
		_, _, err := Parse(name, src)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Fatalf("error is %v, want an InvalidError", err)
		}
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("a value of the environment or an argument is in the message:\n%v", err)
		}
		golden(t, filepath.Join("testdata/invalid", name+".want"), lines(invalid.Problems))
	})
}

func TestFiveMistakesGiveFiveMessagesAtTheirLines(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/invalid/five-mistakes.json")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Parse("shop.json", src)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %v, want an InvalidError", err)
	}
	type place struct {
		Line    int
		Pointer string
	}
	var got []place
	for _, p := range invalid.Problems {
		got = append(got, place{p.Line, p.Pointer})
	}
	want := []place{
		{7, "/containerDefinitions/0/image"},
		{8, "/containerDefinitions/0/memory"},
		{14, "/containerDefinitions/1/dependsOn/0/containerName"},
		{15, "/containerDefinitions/1/dependsOn/1/condition"},
		{18, "/containerDefinitions/1/healthCheck/command"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const third = `shop.json:14:27: /containerDefinitions/1/dependsOn/0/containerName: no container named "dbb"; did you mean "db"?`
	if s := invalid.Problems[2].String(); s != third {
		t.Errorf("got  %s\nwant %s", s, third)
	}
}

func TestPlacesAreTheSameInJSONAndYAML(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/invalid/ports.json")
	if err != nil {
		t.Fatal(err)
	}
	_, _, want := Parse("x", src)
	docs, err := doctree.YAML(src, limits)
	if err != nil {
		t.Fatal(err)
	}
	p := newParser("x", Settings{}, definitionTable)
	p.document(docs[0])
	byPlace(p.problems)
	if diff := cmp.Diff(want.(*InvalidError).Problems, p.problems); diff != "" {
		t.Error(diff)
	}
}

// minimal returns a valid definition with more members for the task and for its
// one container.
func minimal(task, container string) string {
	return fmt.Sprintf(`{"family": "f", %s "containerDefinitions": [{"name": "c", %s "image": "i"}]}`, task, container)
}

func TestAmountsOfATask(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]float64{
		`"1 vCPU"`: 1, `".5 vCPU"`: 0.5, `"0.25 vcpu"`: 0.25, `"512"`: 0.5, `512`: 0.5, `" 128 "`: 0.125, `196608`: 192, `""`: 0, `null`: 0,
	} {
		if task, _, err := Parse("f", []byte(minimal(`"cpu": `+in+`,`, ""))); err != nil || task.CPU != want {
			t.Errorf("cpu %s is %v vCPU, error %v; want %v", in, task.CPU, err, want)
		}
	}
	for in, want := range map[string]int64{
		`"2 GB"`: 2 << 30, `"2GB"`: 2 << 30, `"0.5 gb"`: 512 << 20, `".5 GB"`: 512 << 20, `"512"`: 512 << 20, `6`: 6 << 20, `null`: 0,
	} {
		if task, _, err := Parse("f", []byte(minimal(`"memory": `+in+`,`, ""))); err != nil || task.Memory != want {
			t.Errorf("memory %s is %v bytes, error %v; want %v", in, task.Memory, err, want)
		}
	}
	for _, in := range []string{
		`"cpu": "127"`, `"cpu": "196609"`, `"cpu": "0.1 vCPU"`, `"cpu": "193 vCPU"`, `"cpu": "1.5"`, `"cpu": "1 GB"`, `"cpu": "inf"`, `"cpu": "0x200"`, `"cpu": -512`,
		`"cpu": "1e999 vCPU"`, `"cpu": true`, `"cpu": "` + strings.Repeat("9", 400) + ` vCPU"`,
		`"memory": "5"`, `"memory": "2 vCPU"`, `"memory": "2 GiB"`, `"memory": "99999999999 GB"`, `"memory": [1]`, `"memory": "1."`,
	} {
		if _, _, err := Parse("f", []byte(minimal(in+",", ""))); err == nil {
			t.Errorf("%s is accepted", in)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	task, report, err := Parse("f", []byte(minimal("", `"healthCheck": {"command": ["CMD", "true"]},`)))
	if err != nil || len(report.Warnings) > 0 || len(report.Needs) > 0 {
		t.Fatal(report, err)
	}
	want := Task{Family: "f", Network: NetworkBridge, Containers: []Container{{
		Name: "c", Image: "i", Essential: true, StopTimeout: 30 * time.Second,
		HealthCheck: &HealthCheck{Command: []string{"CMD", "true"}, Interval: 30 * time.Second, Timeout: 5 * time.Second, Retries: 3},
	}}}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Error(diff)
	}
}

func TestHostPortsByNetworkMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[NetworkMode]Port{NetworkBridge: {}, NetworkAWSVPC: {AWSVPCHostPort: 80}, NetworkHost: {HostPort: 80}} {
		for _, mapping := range []string{`{"containerPort": 80}`, `{"containerPort": "80", "hostPort": 0}`, `{"containerPort": 80, "hostPort": 80}`} {
			if mode == NetworkBridge && strings.Contains(mapping, `"hostPort": 80`) {
				continue
			}
			task, _, err := Parse("f", []byte(minimal(`"networkMode": "`+string(mode)+`",`, `"portMappings": [`+mapping+`],`)))
			if err != nil {
				t.Errorf("%s %s: %v", mode, mapping, err)
				continue
			}
			if got := task.Containers[0].Ports[0]; got.HostPort != want.HostPort || got.AWSVPCHostPort != want.AWSVPCHostPort {
				t.Errorf("%s %s has host port %d and prefers %d, want %d and %d", mode, mapping, got.HostPort, got.AWSVPCHostPort, want.HostPort, want.AWSVPCHostPort)
			}
		}
	}
}

// Generators of definitions write 0 for no limit, and ECS asks for a number above
// 0 in one of the two only.
func TestNoMemoryMayBeWrittenAsZero(t *testing.T) {
	t.Parallel()
	schema := compiled(t, Schema(true))
	for _, tt := range []struct {
		container   string
		hard, least int64
	}{
		{`"memory": 0, "memoryReservation": 128,`, 0, 128 << 20},
		{`"memory": 128, "memoryReservation": "0",`, 128 << 20, 0},
		{`"memory": 0, "memoryReservation": 0, "cpu": 0,`, 0, 0},
	} {
		src := []byte(minimal("", tt.container))
		task, _, err := Parse("f", src)
		if err != nil || task.Containers[0].Memory != tt.hard || task.Containers[0].MemoryReservation != tt.least {
			t.Errorf("%s: %+v %v", tt.container, task.Containers, err)
		}
		if err := schema.Validate(instance(t, "f", src)); err != nil {
			t.Errorf("%s: %v", tt.container, err)
		}
	}
	o, _, err := Settings{}.ParseOverride("o", []byte(`{"containerOverrides": [{"name": "c", "memory": 0, "memoryReservation": 64}]}`))
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := Settings{Override: o}.Parse("f", []byte(minimal("", `"memory": 128,`)))
	if c := task.Containers[0]; err != nil || c.Memory != 128<<20 || c.MemoryReservation != 64<<20 {
		t.Errorf("overridden: %+v %v", c, err)
	}
	for _, container := range []string{`"memory": 5,`, `"memoryReservation": -1,`, `"memory": "1.5",`} {
		if _, _, err := Parse("f", []byte(minimal("", container))); err == nil {
			t.Errorf("%s is accepted", container)
		}
	}
}
