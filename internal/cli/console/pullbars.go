package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/internal/term"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// pullBars shows a bar for each image that is being pulled, at the bottom of a terminal.
// Its methods must not be called concurrently.
type pullBars struct {
	out  io.Writer
	live *mpb.Progress // nil while nothing is being pulled
	bars map[string]*mpb.Bar
}

// barStyle uses ASCII: it looks the same in every terminal and font.
func barStyle() mpb.BarStyleComposer {
	return mpb.BarStyle().Lbound("[").Filler("#").Tip("").Padding("-").Rbound("]")
}

// update shows the progress of the pull of an image.
func (b *pullBars) update(image string, p *pull) {
	bar := b.bars[image]
	if bar == nil {
		if p.ended {
			return
		}
		if b.live == nil {
			b.live = mpb.New(mpb.WithOutput(term.Unwrap(b.out)), mpb.WithAutoRefresh(), mpb.WithRefreshRate(barPace))
			b.bars = map[string]*mpb.Bar{}
		}
		bar = b.live.New(0, barStyle(), mpb.BarRemoveOnComplete(), mpb.BarWidth(24),
			mpb.PrependDecorators(decor.Name(lastPart(image), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(amounts, decor.WCSyncWidth)))
		b.bars[image] = bar
	}
	if p.ended {
		b.end(image)
		return
	}
	current, total := p.bytes()
	bar.SetTotal(max(total, current), false) // not complete: another layer may follow
	bar.SetCurrent(current)
}

// end removes the bar of an image, and the view with the last one.
func (b *pullBars) end(image string) {
	b.bars[image].Abort(true)
	delete(b.bars, image)
	if len(b.bars) == 0 {
		b.live.Wait()
		b.live = nil
	}
}

// clear removes all bars.
func (b *pullBars) clear() {
	for image := range b.bars {
		b.end(image)
	}
}

// write writes whole lines above the bars; false if there are none.
func (b *pullBars) write(text []byte) (n int, done bool, err error) {
	if b.live == nil {
		return 0, false, nil
	}
	// A key that the terminal has echoed, such as Ctrl-C, has moved the cursor.
	if _, err := b.live.Write(append([]byte("\r"), text...)); err != nil {
		return 0, true, err
	}
	return len(text), true, nil
}

// amounts returns how much of an image is pulled.
func amounts(s decor.Statistics) string {
	if s.Total <= 0 {
		return "pulling" // Podman before 4.8 reports no amounts
	}
	return fmt.Sprintf("%s of %s  %d%%", BytesText(s.Current), BytesText(s.Total), 100*s.Current/s.Total)
}

// lastPart returns an image without its registry and directories.
func lastPart(image string) string { return image[strings.LastIndexByte(image, '/')+1:] }
