package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// programTable is the table for another program. Its keys are flags of that program, which parses
// their values.
type programTable struct {
	name, page string
	keys       []string
}

// The tables of the programs podtask-kubelet, podtask-ecs and podtask-ingress.
var (
	kubeletTable = programTable{"kubelet", "docs/kubernetes.md", []string{
		"allowed-unsafe-sysctls", "client-ca-file", "eviction-hard", "kubeconfig", "max-pods", "node-ip", "node-labels", "node-name", "port",
		"register-with-taints", "server-for-pods", "shutdown-grace-period", "sync-frequency", "tls-cert-file", "tls-private-key-file",
	}}
	ecsTable = programTable{"ecs", "docs/ecs-anywhere.md", []string{
		"attributes", "awslogs", "cluster", "cpu", "endpoint", "memory", "profile", "region", "reserved-memory", "reserved-ports", "reserved-udp-ports", "tags", "task-cleanup-wait",
	}}
	ingressTable = programTable{"ingress", "docs/online.md", []string{"acme-directory", "acme-dns-program", "acme-email", "acme-roots", "drain", "http", "https", "max-connections"}}

	programTables = []programTable{kubeletTable, ecsTable, ingressTable}
)

// isProgramTable reports whether a table is for another program.
func isProgramTable(name string) bool {
	return slices.ContainsFunc(programTables, func(t programTable) bool { return t.name == name })
}

// KubeletKeys returns the keys of the table [kubelet], in alphabetical order.
func KubeletKeys() []string { return slices.Clone(kubeletTable.keys) }

// ECSKeys returns the keys of the table [ecs], in alphabetical order.
func ECSKeys() []string { return slices.Clone(ecsTable.keys) }

// IngressKeys returns the keys of the table [ingress], in alphabetical order.
func IngressKeys() []string { return slices.Clone(ingressTable.keys) }

// ProgramValue is what was configured for a key of the table of a program, and where.
type ProgramValue struct{ Text, Origin string }

// Kubelet reads the table [kubelet] of all files. The error is an *InvalidError with all
// problems of the files.
func Kubelet(src Source) (map[string]ProgramValue, error) { return kubeletTable.read(src) }

// ECS reads the table [ecs] as Kubelet reads its own.
func ECS(src Source) (map[string]ProgramValue, error) { return ecsTable.read(src) }

// Ingress reads the table [ingress] likewise.
func Ingress(src Source) (map[string]ProgramValue, error) { return ingressTable.read(src) }

func (t programTable) read(src Source) (map[string]ProgramValue, error) {
	out := make(map[string]ProgramValue)
	files, problems := src.files()
	for _, name := range files {
		problems = append(problems, Default().readFile(name)...)
		text, err := readText(name)
		if err != nil {
			continue // it is among the problems
		}
		entries, _, _ := parse(text, name)
		for _, e := range entries {
			if key, ok := strings.CutPrefix(e.key, t.name+"."); ok {
				out[key] = ProgramValue{e.value, name + ":" + strconv.Itoa(e.line)}
			}
		}
	}
	return out, invalid(problems)
}

// checkProgram checks an entry of the table of a program; false if it is none.
func checkProgram(e entry) (is bool, err error) {
	for _, t := range programTables {
		if is, err := t.check(e); is {
			return true, err
		}
	}
	return false, nil
}

func (t programTable) check(e entry) (is bool, err error) {
	if e.key == t.name {
		return true, errors.New("write it as [" + t.name + "], with KEY = VALUE below")
	}
	key, is := strings.CutPrefix(e.key, t.name+".")
	switch {
	case !is:
		return false, nil
	case !slices.Contains(t.keys, key):
		if question := suggest.Question(key, t.keys); question != "" {
			return true, errors.New("unknown key; " + question)
		}
		return true, errors.New("unknown key; " + t.page + " lists those of [" + t.name + "]")
	case !e.scalar:
		return true, errors.New("must be a string, a number or a boolean, not a list or a table")
	}
	return true, nil
}
