package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The steps here print what a container sees of the kernel and its settings.

func cannot(b *box, words []string) error {
	err := b.runStep(words)
	if err == nil {
		return fmt.Errorf("%s can be done", strings.Join(words, " "))
	}
	return say(os.Stdout, []string{"cannot " + words[0]})
}

func mount(_ *box, args []string) error {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	found := ""
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == args[0] {
			mode, _, _ := strings.Cut(f[3], ",")
			found = args[0] + " " + f[2] + " " + mode // the last one is on top
		}
	}
	if found == "" {
		return fmt.Errorf("nothing is mounted at %s", args[0])
	}
	return say(os.Stdout, []string{found})
}

func size(_ *box, args []string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(args[0], &fs); err != nil {
		return err
	}
	return say(os.Stdout, []string{args[0], strconv.FormatUint(fs.Blocks*uint64(fs.Bsize), 10)})
}

// limits are the kernel's numbers of resource limits.
var limits = map[string]int{"cpu": 0, "fsize": 1, "data": 2, "stack": 3, "core": 4, "nproc": 6, "nofile": 7, "memlock": 8}

func limit(_ *box, args []string) error {
	number, known := limits[args[0]]
	if !known {
		return fmt.Errorf("no limit is called %s", args[0])
	}
	var r syscall.Rlimit
	if err := syscall.Getrlimit(number, &r); err != nil {
		return err
	}
	return say(os.Stdout, []string{args[0], strconv.FormatUint(r.Cur, 10), strconv.FormatUint(r.Max, 10)})
}

func status(_ *box, args []string) error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == args[0] {
			return say(os.Stdout, []string{key + "=" + strings.Join(strings.Fields(value), " ")})
		}
	}
	return fmt.Errorf("there is no %s", args[0])
}

func processes(*box, []string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			n++
		}
	}
	return say(os.Stdout, []string{"processes", strconv.Itoa(n)})
}

func interfaces(*box, []string) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	words := []string{"interfaces"}
	for _, i := range all {
		words = append(words, i.Name)
	}
	return say(os.Stdout, words)
}

func resolve(_ *box, args []string) error {
	addresses, err := net.LookupHost(args[0])
	if err != nil {
		return err
	}
	slices.Sort(addresses)
	return say(os.Stdout, append(args, slices.Compact(addresses)...))
}

func resolver(*box, []string) error {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(line, " "); slices.Contains([]string{"nameserver", "search", "options"}, word) {
			fmt.Print(line)
		}
	}
	return nil
}
