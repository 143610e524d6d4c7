package imagestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/imageage"
	"golang.org/x/sys/unix"
)

// Sights is the durable book of what this host has seen of tags, which all processes of the user share.
type Sights struct {
	Log    *slog.Logger
	Ledger *state.Ledger
	// Moment reads the clocks; nil means those of this host.
	Moment func() imageage.Moment
}

// Now returns what Moment reads.
func (s *Sights) Now() imageage.Moment {
	if s.Moment != nil {
		return s.Moment()
	}
	return Now()
}

// Now reads the clocks of this host.
func Now() imageage.Moment {
	m := imageage.Moment{Wall: time.Now().Round(0)} // without the monotonic clock, which does not go on while the host is suspended
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.Boot = strings.TrimSpace(string(id))
	}
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) == nil {
		m.Up = time.Duration(up.Nano())
	}
	return m
}

// Read returns the book. After damage it is empty, with an error.
func (s *Sights) Read() (b imageage.Book, err error) {
	data, err := s.Ledger.Read()
	if err == nil && data != nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return imageage.Book{}, fmt.Errorf("the book of the images that this host has seen: %w", err)
	}
	return b, nil
}

// Update changes the book. A damaged one is kept aside, and change gets an empty one with the time of the damage.
func (s *Sights) Update(ctx context.Context, change func(imageage.Book) imageage.Book) error {
	_, damage := s.Ledger.Read()
	err := s.Ledger.Update(ctx, func(old []byte) ([]byte, error) {
		var b imageage.Book
		if old != nil {
			if err := json.Unmarshal(old, &b); err != nil {
				return nil, err
			}
		} else if errors.Is(damage, state.ErrCorrupt) {
			b.Damaged = s.Now().Wall.UTC().Truncate(time.Second)
			s.Log.Warn("the book of the images that this host has seen is damaged and was kept aside: each image is new again", "error", damage)
		}
		after := change(b)
		if b.Fresh(after) {
			return old, nil
		}
		return json.Marshal(after)
	})
	if err != nil {
		return fmt.Errorf("the book of the images that this host has seen: %w", err)
	}
	return nil
}

// ImageOf returns the parts of a reference with a tag; false for one without.
func ImageOf(text string) (imageage.Image, bool) {
	ref, err := images.ParseRef(text)
	if err != nil || ref.Pinned() || ref.Local() {
		return imageage.Image{}, false
	}
	return imageage.Image{Ref: ref.String(), Registry: ref.Registry(), Repository: ref.Repository(), Tag: ref.Tag()}, true
}
