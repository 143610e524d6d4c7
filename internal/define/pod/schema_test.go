package pod

import (
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var update = flag.Bool("update", false, "write golden and generated files")

// roots are the kinds of documents whose members are known.
var roots = []any{
	corev1.Pod{}, corev1.ConfigMap{}, corev1.Secret{}, corev1.PodTemplate{}, corev1.ReplicationController{},
	appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}, appsv1.DaemonSet{}, batchv1.Job{}, batchv1.CronJob{},
	corev1.Service{}, networkingv1.Ingress{}, corev1.PersistentVolumeClaim{},
}

// opaque are types whose members say nothing about a Pod that is to run.
var opaque = []string{
	"PodStatus", "ReplicationControllerStatus", "DeploymentStatus", "ReplicaSetStatus", "StatefulSetStatus",
	"DaemonSetStatus", "JobStatus", "CronJobStatus", "PersistentVolumeClaimStatus", "ManagedFieldsEntry", "ServiceStatus", "IngressStatus",
}

// TestSchemaIsThatOfKubernetes holds schema_gen.go against the types of k8s.io/api.
// With -update it writes the file.
func TestSchemaIsThatOfKubernetes(t *testing.T) {
	types := make(map[string]string)
	for _, r := range roots {
		typeWord(types, reflect.TypeOf(r))
	}
	var b strings.Builder
	b.WriteString("// Code generated from k8s.io/api by TestSchemaIsThatOfKubernetes. DO NOT EDIT.\n\npackage pod\n\nconst schemaText = `\n")
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fmt.Fprintf(&b, "%s: %s\n", name, types[name])
	}
	b.WriteString("`\n")
	source := aligned(t, b.String())
	if *update {
		if err := os.WriteFile("schema_gen.go", []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("schema_gen.go")
	if err != nil || string(have) != source {
		t.Errorf("schema_gen.go is not that of k8s.io/api; run go test ./internal/define/pod -run Schema -update (%v)\n%s", err, cmp.Diff(strings.Split(string(have), "\n"), strings.Split(source, "\n")))
	}
}

// TestVersionOfTheRows: the table names the module that its rows are held against.
func TestVersionOfTheRows(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil || !strings.Contains(string(mod), "\t"+apiVersions+"\n") {
		t.Errorf("go.mod does not require %s: %v", apiVersions, err)
	}
}

// typeWord returns the word of the schema for a type, and adds the members of structs.
func typeWord(types map[string]string, t reflect.Type) string {
	switch t {
	case reflect.TypeOf(resource.Quantity{}):
		return "quantity"
	case reflect.TypeOf(intstr.IntOrString{}):
		return "intOrString"
	case reflect.TypeOf(metav1.Time{}), reflect.TypeOf(metav1.MicroTime{}):
		return "time"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWord(types, t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + typeWord(types, t.Elem())
	case reflect.Map:
		return "map " + typeWord(types, t.Elem())
	case reflect.Struct:
		if slices.Contains(opaque, t.Name()) {
			return "any"
		}
		if _, known := types[t.Name()]; !known {
			types[t.Name()] = ""
			types[t.Name()] = strings.Join(memberWords(types, t), ", ")
		}
		return t.Name()
	default:
		if words := enumerations()[t.PkgPath()+"."+t.Name()]; len(words) > 0 && t != reflect.TypeFor[corev1.Signal]() { // stopSignal is checked where it is read
			return "string=" + strings.Join(words, "|")
		}
		return t.Kind().String()
	}
}

// enumerations are the words of the types that the source of k8s.io/api marks as enumerations, by the package and the name of the type.
var enumerations = sync.OnceValue(func() map[string][]string {
	all := make(map[string][]string)
	for _, root := range roots {
		pkg := reflect.TypeOf(root).PkgPath()
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
		if err != nil {
			panic(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "types.go"), nil, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		words := make(map[string][]string)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					typ, named := spec.Type.(*ast.Ident)
					if literal, ok := spec.Values[0].(*ast.BasicLit); named && ok && g.Tok == token.CONST {
						word, _ := strconv.Unquote(literal.Value)
						if word != "" {
							words[typ.Name] = append(words[typ.Name], word)
						}
					}
				case *ast.TypeSpec:
					if strings.Contains(g.Doc.Text()+spec.Doc.Text(), "+enum") {
						all[pkg+"."+spec.Name.Name] = nil
					}
				}
			}
		}
		for name, w := range words {
			if _, ok := all[pkg+"."+name]; ok {
				all[pkg+"."+name] = w
			}
		}
	}
	return all
})

func memberWords(types map[string]string, t reflect.Type) (words []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			words = append(words, memberWords(types, inner)...)
		default:
			words = append(words, name+" "+typeWord(types, f.Type))
		}
	}
	return words
}

// aligned is source as gofmt writes it.
func aligned(t *testing.T, source string) string {
	t.Helper()
	out, err := format.Source([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
