package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// kubeletTable is the table for podtask-kubelet. Its keys are flags of that program, which
// parses their values.
const kubeletTable = "kubelet"

// kubeletKeys are the keys of the table.
var kubeletKeys = []string{
	"allowed-unsafe-sysctls", "client-ca-file", "eviction-hard", "kubeconfig", "max-pods", "node-ip", "node-labels", "node-name", "port",
	"register-with-taints", "server-for-pods", "shutdown-grace-period", "sync-frequency", "tls-cert-file", "tls-private-key-file",
}

// KubeletKeys returns the keys of the table [kubelet], in alphabetical order.
func KubeletKeys() []string { return slices.Clone(kubeletKeys) }

// KubeletValue is what was configured for a key of the table [kubelet], and where.
type KubeletValue struct{ Text, Origin string }

// Kubelet reads the table [kubelet] of all files. The error is an *InvalidError with all
// problems of the files.
func Kubelet(src Source) (map[string]KubeletValue, error) {
	out := make(map[string]KubeletValue)
	var problems []Problem
	for _, dir := range src.dirs() {
		files, err := filesIn(dir)
		if err != nil {
			problems = append(problems, Problem{File: dir, Message: reason(err)})
		}
		for _, name := range files {
			problems = append(problems, Default().readFile(name)...)
			text, err := readText(name)
			if err != nil {
				continue // it is among the problems
			}
			entries, _, _ := parse(text, name)
			for _, e := range entries {
				if key, ok := strings.CutPrefix(e.key, kubeletTable+"."); ok {
					out[key] = KubeletValue{e.value, name + ":" + strconv.Itoa(e.line)}
				}
			}
		}
	}
	return out, invalid(problems)
}

// checkKubelet checks an entry of the table; false if it is none.
func checkKubelet(e entry) (is bool, err error) {
	if e.key == kubeletTable {
		return true, errors.New("write it as [kubelet], with KEY = VALUE below")
	}
	key, is := strings.CutPrefix(e.key, kubeletTable+".")
	switch {
	case !is:
		return false, nil
	case !slices.Contains(kubeletKeys, key):
		if question := suggest.Question(key, kubeletKeys); question != "" {
			return true, errors.New("unknown key; " + question)
		}
		return true, errors.New("unknown key; docs/kubernetes.md lists those of [kubelet]")
	case !e.scalar:
		return true, errors.New("must be a string, a number or a boolean, not a list or a table")
	}
	return true, nil
}
