package define

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// minimumAge is a key of the configuration that a definition has as well.
const minimumAge = "minimum-age"

// minimumAgePointer is the member of a task that a minimum age becomes.
const minimumAgePointer = "/x-podtask/minimumAge"

// wholeAge is an age as imageage.ParseAge reads it.
func wholeAge(age time.Duration) string {
	text := imageage.FormatAge(age)
	if same, err := imageage.ParseAge(text); err == nil && same == age {
		return text
	}
	return age.String()
}

// placeMinimumAge places what is wrong with a minimum age that a request gives, and that no line of the document has, at the
// image for which it has no effect.
func (d Definition) placeMinimumAge(err error) error {
	var invalid *taskdef.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	placed := *invalid
	placed.Problems = nil
	for _, p := range invalid.Problems {
		if p.Pointer == minimumAgePointer && p.File == "" {
			p.File, p.Pointer, p.Message = d.Document.Name, "", fmt.Sprintf("--%s: %s", minimumAge, p.Message)
			p.Fix = strings.Replace(p.Fix, "remove it", "leave the flag out", 1)
			if at := d.pinned(); at != nil {
				p.Line, p.Column = at.Line, at.Col
			}
		}
		placed.Problems = append(placed.Problems, p)
	}
	return &placed
}

// pinned returns the first image of the document that has a digest; nil if there is none.
func (d Definition) pinned() (found *doctree.Node) {
	docs, err := d.source.Documents()
	if err != nil {
		return nil
	}
	for _, doc := range docs {
		if found = pinnedImage(doc); found != nil {
			return found
		}
	}
	return nil
}

func pinnedImage(n *doctree.Node) (found *doctree.Node) {
	for _, f := range n.Fields {
		if f.Key == "image" && strings.Contains(f.Value.Text, "@") {
			return f.Value
		}
		if found = pinnedImage(f.Value); found != nil {
			return found
		}
	}
	for _, item := range n.Items {
		if found = pinnedImage(item); found != nil {
			return found
		}
	}
	return nil
}
