package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/go-units"
)

// Permissions are those of a device in the words of ECS; nil for all.
func Permissions(letters string) (words []string) {
	if letters == "rwm" {
		return nil
	}
	for _, p := range []string{"read", "write", "mknod"} {
		if strings.Contains(letters, p[:1]) {
			words = append(words, p)
		}
	}
	return words
}

// DefaultTmpfs is the size, in MiB, of a tmpfs of which the file says none: the model needs
// one.
const DefaultTmpfs = 64

// ParseTmpfs reads PATH[:OPTIONS]. The error is about options that are left out.
func ParseTmpfs(text string) (Tmpfs, error) {
	path, options, _ := strings.Cut(text, ":")
	t := Tmpfs{Path: path}
	var errs []error
	for option := range strings.SplitSeq(options, ",") {
		size, ok := strings.CutPrefix(option, "size=")
		switch n, err := units.RAMInBytes(size); {
		case option == "":
		case !ok && slices.Contains(podmanTmpfsOptions, option):
			errs = append(errs, fmt.Errorf("a definition has no option %s", option))
		case !ok:
			t.Options = append(t.Options, option)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s is not a size", size))
		default:
			t.Size = max(1, Mebibytes(n))
		}
	}
	if t.Size == 0 {
		t.Size = DefaultTmpfs
		errs = append(errs, NoTmpfsSize(path))
	}
	return t, errors.Join(errs...)
}

// NoTmpfsSize is the line about a tmpfs without a size.
func NoTmpfsSize(path string) error {
	return fmt.Errorf("a definition gives a tmpfs a size, and none is written: it has %d MiB; write %s:size=SIZE for another one", DefaultTmpfs, path)
}

// podmanTmpfsOptions are those that Podman has and ECS has not.
var podmanTmpfsOptions = []string{"U", "notmpcopyup", "tmpcopyup", "noswap"}

// Mebibytes rounds a size up; one that is negative means no limit.
func Mebibytes[T ~int64](n T) int64 {
	if n < 0 {
		return 0
	}
	return (int64(n) + units.MiB - 1) / units.MiB
}
