package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// write replaces the file with a rename, so that no reader sees a part of it.
func write(_ *box, args []string) error {
	file := os.ExpandEnv(args[0])
	fresh := file + ".new"
	if err := os.WriteFile(fresh, []byte(strings.Join(args[1:], " ")), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// put writes into a file that may be a mount, which cannot be replaced.
func put(_ *box, args []string) error {
	return os.WriteFile(os.ExpandEnv(args[0]), []byte(strings.Join(args[1:], " ")), 0o644)
}

func stat(_ *box, args []string) error {
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	s := info.Sys().(*syscall.Stat_t)
	_, err = fmt.Printf("%s mode=%04o uid=%d gid=%d\n", args[0], s.Mode&0o7777, s.Uid, s.Gid)
	return err
}

func list(_ *box, args []string) error {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return err
	}
	words := []string{args[0] + ":"}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			words = append(words, e.Name())
		}
	}
	return say(os.Stdout, words)
}

func cat(_ *box, args []string) error {
	data, err := os.ReadFile(os.ExpandEnv(args[0]))
	if err != nil {
		return err
	}
	return say(os.Stdout, []string{string(data)})
}

func wait(_ *box, args []string) error {
	for {
		if _, err := os.Stat(args[0]); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		time.Sleep(pollPause)
	}
}

func tally(b *box, args []string) error {
	return withInt(args[1], func(want int) error {
		text, err := os.ReadFile(args[0])
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n, _ := strconv.Atoi(string(text)) // a missing file counts as 0
		n++
		if err := write(b, []string{args[0], strconv.Itoa(n)}); err != nil {
			return err
		}
		if n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}
