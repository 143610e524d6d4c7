package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// Images is how images are pulled and cleaned up. The defaults are the ECS agent's
// but for MinAge: a week instead of an hour, because a pull on a laptop costs more than
// a disk.
type Images struct {
	// PullsAtOnce bounds the pulls of all processes of the user.
	PullsAtOnce int
	// FirstByte and Idle bound the silence of a pull, PullLimit its whole duration.
	FirstByte, Idle, PullLimit time.Duration
	// Cleanup turns automatic clean-up on.
	Cleanup bool
	// Interval is the time between two rounds, PerRound how many images one removes.
	Interval time.Duration
	PerRound int
	// MinAge is how long an image must not have been used.
	MinAge time.Duration
	// Exclude are patterns of names (path.Match) that no clean-up removes.
	Exclude []string
	// MinFree is the free space in bytes below which a clean-up comes before a pull
	// and does not ask for MinAge; it goes on until there is half as much again.
	MinFree int64
}

// ReadImages reads the keys about images from their variables, as Settings.Getenv has
// them; what is not there has its default. All mistakes are in the error.
func ReadImages(getenv func(string) string) (Images, error) {
	var errs []error
	read := func(name string) string {
		k, _, _ := find(name)
		value := cmp.Or(getenv(k.Env()), k.Default)
		if err := k.Set(&Config{}, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.Env(), err))
		}
		return value
	}
	// What Set has let pass these can read.
	number := func(name string) int { n, _ := strconv.Atoi(read(name)); return n }
	lasting := func(name string) time.Duration { d, _ := time.ParseDuration(read(name)); return d }
	free, _ := units.RAMInBytes(read("image-min-free"))
	i := Images{
		PullsAtOnce: number("pulls-at-once"),
		FirstByte:   lasting("pull-first-byte"), Idle: lasting("pull-idle"), PullLimit: lasting("pull-timeout"),
		Cleanup:  read("image-cleanup") == "true",
		Interval: lasting("image-cleanup-interval"), PerRound: number("image-cleanup-per-round"),
		MinAge: lasting("image-min-age"), MinFree: free,
	}
	if patterns := read("image-exclude"); patterns != "" {
		i.Exclude = strings.Split(patterns, ",")
	}
	return i, errors.Join(errs...)
}

func size(value string) error {
	if n, err := units.RAMInBytes(value); err != nil || n < 0 {
		return fmt.Errorf("%q is no size: give bytes, or a number with k, m, g or t, such as 2g", value)
	}
	return nil
}

func patterns(value string) error {
	for p := range strings.SplitSeq(value, ",") {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is no pattern: close its bracket", p)
		}
	}
	return nil
}
