package foreign_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/testing/nonsense"
)

// seeds adds the files of a kind.
func seeds(f *testing.F, kind string) {
	f.Helper()
	if _, err := os.Stat(files); errors.Is(err, fs.ErrNotExist) {
		return // OSS-Fuzz runs the program alone
	}
	found, err := filepath.Glob(filepath.Join(files, kind, "*", "*"))
	if err != nil || len(found) == 0 {
		f.Fatal(found, err)
	}
	for _, file := range found {
		if name := filepath.Base(file); name == "args" || name == "want" {
			continue
		}
		if src, err := os.ReadFile(file); err == nil {
			f.Add(string(src), "")
		}
	}
}

// check reads a file, which names itself as any other file, and fails if an error has no problem or a result no
// definition.
func check(t *testing.T, name, text, service string) {
	t.Helper()
	r, err := foreign.Read(toolfile.Request{
		File: name, Base: name, Source: []byte(text), Service: service, Params: map[string]string{"Tag": "1"},
		Open: func(string) ([]byte, error) { return []byte(text), nil },
	})
	var invalid *toolfile.Error
	switch {
	case err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0):
		t.Errorf("the error has no problems: %v", err)
	case err == nil && r.Definition == nil && len(r.Documents) == 0:
		t.Error("neither a definition nor an error")
	}
}

func fuzz(f *testing.F, kind, name string) {
	f.Helper()
	seeds(f, kind)
	f.Fuzz(func(t *testing.T, text, service string) { check(t, name, text, service) })
}

func FuzzCloudFormation(f *testing.F) { fuzz(f, "cloudformation", "template.yaml") }
func FuzzAssembly(f *testing.F)       { fuzz(f, "cdk", "manifest.json") }
func FuzzTerraform(f *testing.F)      { fuzz(f, "terraform", "plan.json") }
func FuzzEcspresso(f *testing.F)      { fuzz(f, "ecspresso", "ecspresso.yml") }
func FuzzCopilot(f *testing.F)        { fuzz(f, "copilot", "manifest.yml") }
func FuzzKubernetes(f *testing.F)     { fuzz(f, "kubernetes", "all.yaml") }
func FuzzContainers(f *testing.F)     { fuzz(f, "containers", "web.json") }

// FuzzDifferences compares a definition with itself, and with another one.
func FuzzDifferences(f *testing.F) {
	for _, seed := range []string{`{"containerDefinitions": [{"name": "a", "cpu": 0, "environment": [{"name": "x"}]}]}`, `{"containerDefinitions": [{"name": "a", "portMappings": [{"containerPort": 80, "protocol": "udp"}]}], "cpu": "1 vCPU"}`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		a, err := foreign.ReadDefinition("a", []byte(one))
		if err != nil {
			return
		}
		if d := foreign.Differences(a, a); len(d) > 0 {
			t.Errorf("%s differs from itself: %v", one, d)
		}
		b, err := foreign.ReadDefinition("b", []byte(other))
		if err == nil && len(foreign.Differences(a, b)) != len(foreign.Differences(b, a)) {
			t.Errorf("%s and %s differ in one direction more", one, other)
		}
	})
}

func TestNonsenseCostsLittle(t *testing.T) {
	for _, head := range []string{"", "task_definition: x\nregion: {{ "} {
		nonsense.Check(t, head, func(text string) { _, _ = foreign.Read(toolfile.Request{File: "x.yaml", Source: []byte(text)}) })
	}
}

// A template whose outputs name outputs that name outputs makes an exponential number of values, and texts that double.
func TestTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	var nested strings.Builder
	nested.WriteString("Resources:\n  Task: {Type: AWS::ECS::TaskDefinition, Properties: {ContainerDefinitions: [{Name: a, Image: !GetAtt N0.Outputs.O}]}}\n")
	nested.WriteString("  N0: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: n.yaml}}\n")
	templates := map[string]string{}
	for i := range 7 {
		next := string(rune('a' + i + 1))
		text := "Resources:\n  N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: " + next + ".yaml}}\nOutputs:\n  O: {Value: !Join [x, [" +
			strings.Repeat("!GetAtt N.Outputs.O, ", 60) + "y]]}\n"
		templates[string(rune('a'+i))+".yaml"] = text
	}
	templates["n.yaml"] = templates["a.yaml"]
	_, err := foreign.Read(toolfile.Request{File: "t.yaml", Base: "t.yaml", Source: []byte(nested.String()), Open: func(name string) ([]byte, error) {
		if text, ok := templates[name]; ok {
			return []byte(text), nil
		}
		return []byte("Resources: {}\nOutputs: {O: {Value: " + strings.Repeat("z", 1000) + "}}\n"), nil
	}})
	if err == nil || !strings.Contains(err.Error(), "too many values") && !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("it is read: %v", err)
	}
	// Aliases that multiply.
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += string(i) + ": &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+", ", 10) + "]\n"
	}
	if _, err := foreign.Read(toolfile.Request{File: "t.yaml", Source: []byte(bomb + "Resources: *j\n")}); err == nil {
		t.Error("a bomb of aliases is read")
	}
}
