package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/state"
)

type pet struct {
	Name string `json:"name"`
	Legs int    `json:"legs"`
}

var (
	errMissing = errors.New("no such pet")
	errLegs    = errors.New("legs are counted from 0")
)

func openPets(t *testing.T, dir string) *state.Named[pet] {
	t.Helper()
	pets, err := state.OpenNamed(dir, state.OS{}, state.Kind[pet]{
		Dir: "pets", Noun: "pet", Command: "test",
		Name: func(p pet) string { return p.Name },
		Check: func(p pet) error {
			if p.Legs < 0 {
				return errLegs
			}
			return nil
		},
		Missing: func(string) error { return errMissing },
	})
	if err != nil {
		t.Fatal(err)
	}
	return pets
}

func TestNamedRecordsAreFoundByName(t *testing.T) {
	t.Parallel()
	pets := openPets(t, t.TempDir())
	for _, p := range []pet{{"../otter", 4}, {"Ant", 6}} {
		if err := pets.Put(p); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := pets.Get("../otter"); err != nil || p.Legs != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	if all, err := pets.All(); err != nil || len(all) != 2 || all[1].Name != "Ant" {
		t.Errorf("not by name: %+v, %v", all, err)
	}
	if _, err := pets.Get("cat"); !errors.Is(err, errMissing) {
		t.Errorf("without a record: %v", err)
	}
	if err := errors.Join(pets.Delete("Ant"), pets.Delete("../otter")); err != nil {
		t.Error(err)
	}
	if err := pets.Delete("Ant"); !errors.Is(err, errMissing) {
		t.Errorf("a second removal: %v", err)
	}
}

func TestNamedRecordsChangeWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	pets := openPets(t, t.TempDir())
	grow := func(legs int, err error) error {
		_, got := pets.Change(t.Context(), "ant", func(p pet, _ bool) (pet, error) {
			return pet{"ant", p.Legs + legs}, err
		})
		return got
	}
	refused := errors.New("refused")
	if err := grow(6, nil); err != nil {
		t.Fatal(err)
	}
	if err := grow(1, refused); !errors.Is(err, refused) {
		t.Errorf("the error of the change: %v", err)
	}
	if err := grow(-9, nil); !errors.Is(err, errLegs) {
		t.Errorf("a record that cannot be used: %v", err)
	}
	if p, err := pets.Get("ant"); err != nil || p.Legs != 6 {
		t.Errorf("%+v, %v", p, err)
	}
	l, err := pets.Lock("ant")
	if err != nil {
		t.Fatal(err)
	}
	if !pets.Locked("ant") || pets.Locked("cat") {
		t.Error("the lock is of one name")
	}
	if err := l.Unlock(); err != nil || pets.Locked("ant") {
		t.Errorf("after Unlock: %v", err)
	}
}

func TestNamedRecordsThatCannotBeReadAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pets := openPets(t, dir)
	for _, name := range []string{"ant", "bee"} {
		if err := pets.Put(pet{name, 6}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(pets.Dir(), "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := pets.All()
	if len(all) != 1 || err == nil || !strings.Contains(err.Error(), "pet record "+strings.TrimSuffix(filepath.Base(files[0]), ".json")) {
		t.Errorf("%+v, %v", all, err)
	}
}
