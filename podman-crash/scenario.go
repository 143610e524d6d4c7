package main

import (
	"sort"
	"strings"
)

// A scenario is one command that is killed, with what comes before it and what must work afterwards. In its commands,
// IMAGE is an image with a shell, and TOKEN a number that marks its processes. Each command is one of Podman; the one that
// is killed may be lines with requests to its service (rest.go) in its place.
type scenario struct {
	about  string
	before []string // prepares
	kill   string   // is killed
	again  []string // must succeed afterwards
	exit   string   // the container whose exit code must be 3 after again
	gone   string   // a kind and a name that again must have removed
}

const (
	payload  = `IMAGE sh -c 'trap "exit 3" TERM; sleep TOKEN & wait'`
	createC  = "create --name c --network none " + payload
	runC     = "run -d --name c --network none " + payload
	runNet   = "run -d --name c --network n1 " + payload
	createN1 = "network create n1"
)

// scenarios are all scenarios by name. Failures of one are not hidden by those of another: each begins with an empty
// store.
var scenarios = map[string]scenario{
	"run": {about: "run -d without a network", kill: runC,
		again: []string{"rm -f -t 0 c", runC, "stop -t 5 c"}, exit: "c"},
	"create": {about: "create without a network", kill: createC,
		again: []string{"rm -f -t 0 c", createC, "start c", "stop -t 5 c"}, exit: "c"},
	"start": {about: "start of a created container", before: []string{createC}, kill: "start c",
		again: []string{"start c", "stop -t 5 c"}, exit: "c"},
	"stop": {about: "stop of a running container", before: []string{runC}, kill: "stop -t 5 c",
		again: []string{"stop -t 5 c", "wait c"}, exit: "c"},
	"rm": {about: "rm -f of a running container", before: []string{runC}, kill: "rm -f -t 0 c",
		again: []string{"rm -f -t 0 c"}, gone: "container c"},
	"exec": {about: "exec in a running container", before: []string{runC}, kill: "exec c true",
		again: []string{"exec c true", "stop -t 5 c"}, exit: "c"},
	"bridge": {about: "start on a bridge", before: []string{createN1, "create --name c --network n1 " + payload}, kill: "start c",
		again: []string{"start c", "stop -t 5 c"}, exit: "c"},
	"bridge-stop": {about: "stop on a bridge", before: []string{createN1, runNet}, kill: "stop -t 5 c",
		again: []string{"stop -t 5 c", "wait c"}, exit: "c"},
	"pasta": {about: "start with pasta", before: []string{"create --name c --network pasta " + payload}, kill: "start c",
		again: []string{"start c", "stop -t 5 c"}, exit: "c"},
	"network-connect": {about: "network connect of a running container", before: []string{createN1, "network create n2", runNet},
		kill: "network connect n2 c", again: []string{"stop -t 5 c", "start c", "stop -t 5 c"}, exit: "c"},
	"network-rm": {about: "network rm", before: []string{createN1}, kill: "network rm n1",
		again: []string{"network rm -f n1"}, gone: "network n1"},
	"volume-rm": {about: "volume rm", before: []string{"volume create v"}, kill: "volume rm v",
		again: []string{"volume rm -f v"}, gone: "volume v"},
	"pod-create": {about: "pod create", kill: "pod create --name p --network none",
		again: []string{"pod rm -f p", "pod create --name p --network none", "pod start p"}},
	"pod-start": {about: "pod start with one container",
		before: []string{"pod create --name p --network none", "create --pod p --name c " + payload}, kill: "pod start p",
		again: []string{"pod start p", "stop -t 5 c"}, exit: "c"},
	"pod-rm": {about: "pod rm -f of a running pod",
		before: []string{"pod create --name p --network none", "run -d --pod p --name c " + payload}, kill: "pod rm -f -t 0 p",
		again: []string{"pod rm -f -t 0 p"}, gone: "pod p"},
	"kube-play": {about: "kube play of a pod", kill: "kube play --network none KUBE",
		again: []string{"kube play --network none --replace KUBE", "pod rm -f -t 0 p"}, gone: "pod p"},
}

const kubeFile = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    image: IMAGE
    imagePullPolicy: Never
    command: [/bin/sleep, "TOKEN"]
`

// names returns the names of a list such as "run,stop", or all if it is empty.
func names[V any](all map[string]V, list string) []string {
	if list != "" {
		return strings.Split(list, ",")
	}
	var out []string
	for name := range all {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// split divides a command into words as a shell does: by blanks, and with single quotes.
func split(command string) []string {
	var words []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// choose returns up to n different numbers of 1 to count. The same seed makes the same choice; all numbers are
// returned if there are no more than n.
func choose(seed uint64, count, n int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = i + 1
	}
	if n < count {
		for i := 0; i < n; i++ {
			seed = seed*6364136223846793005 + 1442695040888963407
			j := i + int((seed>>33)%uint64(count-i))
			all[i], all[j] = all[j], all[i]
		}
		all = all[:n]
	}
	sort.Ints(all)
	return all
}
