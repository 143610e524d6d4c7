package timeline_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/timeline"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func lane(name, note string, changes ...timeline.Change) timeline.Lane {
	l := timeline.LaneOf(name, "resolve", "STOPPED", noon, at(40), changes)
	l.Note = note
	return l
}

func shop() timeline.Chart {
	return timeline.Chart{
		Title: "shop <0123456789ab> RUNNING, 40s", From: noon, To: at(40),
		Lanes: []timeline.Lane{
			lane("(task)", "", timeline.Change{State: "pull", At: at(4)}, timeline.Change{State: "wait", At: at(12)}, timeline.Change{State: "run", At: at(26)}),
			lane("(pod)", "", timeline.Change{State: "start", At: at(8)}),
			lane("migrate", "exit code 0", timeline.Change{State: "pull", At: at(3)}, timeline.Change{State: "create", At: at(9)},
				timeline.Change{State: "wait", At: at(10)}, timeline.Change{State: "run", At: at(12)}, timeline.Change{State: "STOPPED", At: at(22)}),
			lane("server & co", "", timeline.Change{State: "pull", At: at(4)}, timeline.Change{State: "create", At: at(11)},
				timeline.Change{State: "wait", At: at(12)}, timeline.Change{State: "run", At: at(22)}, timeline.Change{State: "healthy", At: at(26)},
				timeline.Change{State: "unhealthy", At: at(34)}, timeline.Change{State: "healthy", At: at(36)}),
		},
	}
}

func TestTextIsAsWideAsAskedFor(t *testing.T) {
	t.Parallel()
	const want = `
shop <0123456789ab> RUNNING, 40s
             0s        10.0s     20.0s          40.0s
(task)       ····▒▒▒▒▒▒▒▒--------------▆▆▆▆▆▆▆▆▆▆▆▆▆▆
(pod)        ········▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
migrate      ···▒▒▒▒▒▒▓--▆▆▆▆▆▆▆▆▆▆                    exit code 0
server & co  ····▒▒▒▒▒▒▒▓----------▆▆▆▆████████▂▂████
             · resolve  ▒ pull  ▓ create  - wait  ▄ start  ▆ run
             █ healthy  ▂ unhealthy
`
	if diff := cmp.Diff(want[1:], shop().Text(66, nil)); diff != "" {
		t.Error(diff)
	}
	for width := range 260 {
		lines := strings.Split(shop().Text(width, nil), "\n")
		for _, line := range lines[1:] {
			if n := utf8.RuneCountInString(line); n > max(width, 2+8+2+23) {
				t.Errorf("asked for %d columns: %d: %q", width, n, line)
			}
		}
	}
}

// What is quiet is not drawn, unless it failed.
func TestQuietLanesAreDrawnIfTheyFailed(t *testing.T) {
	t.Parallel()
	c := shop()
	c.Lanes[1].Quiet = true
	for what, text := range map[string]string{"text": c.Text(80, nil), "steps": c.Steps(80, nil), "picture": c.SVG(), "narrow picture": c.NarrowSVG()} {
		if strings.Contains(text, "(pod)") || !strings.Contains(text, "migrate") {
			t.Errorf("the %s is %s", what, text)
		}
	}
	c.Lanes[1].Failed = true
	if text := c.Text(80, nil); !strings.Contains(text, "(pod)") {
		t.Error(text)
	}
}

// The colors of bars can be told from both backgrounds (WCAG 2.2, 1.4.11).
func TestColorsAreSeenOnBothBackgrounds(t *testing.T) {
	t.Parallel()
	light := func(hex string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			if part := float64(n) / 255; part <= 0.04045 {
				sum += weight * part / 12.92
			} else {
				sum += weight * math.Pow((part+0.055)/1.055, 2.4)
			}
		}
		return sum + 0.05
	}
	c := timeline.Chart{From: noon, To: at(40), Lanes: []timeline.Lane{{Name: "a", Failed: true}}}
	for i, kind := range []string{"resolve", "pull", "prepare", "create", "wait", "start", "run", "healthy", "unhealthy", "restart", "fault"} {
		c.Lanes[0].Spans = append(c.Lanes[0].Spans, timeline.Span{State: kind, From: at(float64(i)), To: at(float64(i + 1))})
	}
	colors := map[string]bool{}
	for _, m := range regexp.MustCompile(`fill="(#[0-9a-f]{6})"`).FindAllStringSubmatch(c.SVG(), -1) {
		colors[m[1]] = true
	}
	if len(colors) != 12 {
		t.Errorf("12 kinds have %d colors", len(colors))
	}
	for color := range colors {
		if a, b := light("#ffffff")/light(color), light(color)/light("#16181d"); a < 3 || b < 3 {
			t.Errorf("%s: %.1f on white, %.1f on dark", color, a, b)
		}
	}
}

// A long name leaves room for the bars.
func TestLongNamesAreCut(t *testing.T) {
	t.Parallel()
	c := shop()
	c.Lanes = append(c.Lanes, lane(strings.Repeat("a-long-name-", 20), "exit code 137", timeline.Change{State: "restart", At: at(30)}))
	for line := range strings.Lines(c.Text(60, nil)) {
		if n := utf8.RuneCountInString(line) - 1; n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if text := c.Text(60, nil); !strings.Contains(text, "a-long-name-a-long-n…  ·") || !strings.Contains(text, "~ restart") {
		t.Error(text)
	}
	if picture := c.SVG(); strings.Contains(picture, strings.Repeat("a-long-name-", 5)) || !strings.Contains(picture, "restart</text>") {
		t.Error(picture)
	}
}

func TestShortStatesShowAndPaintIsByState(t *testing.T) {
	t.Parallel()
	c := timeline.Chart{From: noon, To: at(100), Lanes: []timeline.Lane{timeline.LaneOf("a", "resolve", "STOPPED", noon, at(100), []timeline.Change{
		{State: "run", At: at(50)}, {State: "STOPPED", At: at(50.1)},
	})}}
	got := strings.Split(c.Text(15, func(state, glyphs string) string { return "<" + state + ":" + glyphs + ">" }), "\n")[1]
	if want := "a  <resolve:·····><run:▆>"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTimesThatRunBackwardsMakeNoSpan(t *testing.T) {
	t.Parallel()
	l := timeline.LaneOf("a", "resolve", "STOPPED", at(10), at(20), []timeline.Change{
		{State: "pull", At: at(5)}, {State: "run", At: at(15)}, {State: "run", At: at(16)}, {State: "STOPPED", At: at(12)},
	})
	want := []timeline.Span{{State: "pull", From: at(10), To: at(15)}, {State: "run", From: at(15), To: at(16)}}
	if diff := cmp.Diff(want, l.Spans); diff != "" {
		t.Error(diff)
	}
	empty := timeline.Chart{From: noon, To: noon, Lanes: []timeline.Lane{{Name: "a"}}}
	if text := empty.Text(80, nil); !strings.Contains(text, "a\n") || !strings.HasSuffix(empty.SVG(), "</svg>\n") {
		t.Errorf("%q", text)
	}
}

// box is a rectangle of a picture.
type box struct{ x, y, width, height float64 }

// The picture is well-formed, nothing lies outside of it, and bars and names do not
// run into each other.
func TestPictureFits(t *testing.T) {
	t.Parallel()
	chart := shop()
	chart.Lanes = append(chart.Lanes, lane(strings.Repeat("long-", 30), "", timeline.Change{State: "restart", At: at(30)}))
	for name, picture := range map[string]string{"wide": chart.SVG(), "narrow": chart.NarrowSVG()} {
		t.Run(name, func(t *testing.T) { t.Parallel(); fits(t, name, picture) })
	}
}

// shapes returns the canvas, the rectangles and the places of the texts of a picture.
func shapes(t *testing.T, picture string) (canvas box, rects, texts []box) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return canvas, rects, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		number := func(name string) float64 {
			for _, a := range e.Attr {
				if a.Name.Local == name {
					n, err := strconv.ParseFloat(a.Value, 64)
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
			}
			return 0
		}
		b := box{number("x"), number("y"), number("width"), number("height")}
		switch e.Name.Local {
		case "svg":
			canvas = b
		case "rect":
			rects = append(rects, b)
		case "text":
			texts = append(texts, b)
		}
	}
}

func fits(t *testing.T, name, picture string) {
	t.Helper()
	if file := os.Getenv("TIMELINE_SVG"); file != "" { // to look at it
		if err := os.WriteFile(strings.TrimSuffix(file, ".svg")+"-"+name+".svg", []byte(picture), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	canvas, rects, texts := shapes(t, picture)
	if len(rects) < 20 || len(texts) < 15 {
		t.Fatalf("only %d rectangles and %d texts", len(rects), len(texts))
	}
	for _, r := range rects {
		if r.x < 0 || r.y < 0 || r.width <= 0 || r.x+r.width > canvas.width+0.1 || r.y+r.height > canvas.height {
			t.Errorf("%+v lies outside of %+v", r, canvas)
		}
	}
	for _, x := range texts {
		if x.x < 0 || x.y < 10 || x.x > canvas.width || x.y > canvas.height-4 {
			t.Errorf("a text at %+v lies outside of %+v", x, canvas)
		}
	}
	for i, a := range rects[1:] { // the first is the background
		for _, b := range rects[i+2:] {
			if a.x+0.2 < b.x+b.width && b.x+0.2 < a.x+a.width && a.y < b.y+b.height && b.y < a.y+a.height {
				t.Errorf("%+v and %+v overlap", a, b)
			}
		}
	}
	if strings.Contains(picture, "<0123") || !strings.Contains(picture, "server &amp; co") {
		t.Error("names are not escaped")
	}
}

// failing is a chart in which a container waits, and another one fails.
func failing() timeline.Chart {
	return timeline.Chart{Title: "shop", From: noon, To: at(40), Lanes: []timeline.Lane{
		{Name: "(task)", Spans: []timeline.Span{{State: "NONE", Activity: "resolve", From: noon, To: at(40)}}},
		{Name: "app", Spans: []timeline.Span{
			{State: "CREATED", Activity: "wait for db", From: noon, To: at(30)}, {State: "CREATED", Activity: "wait for init", From: at(30), To: at(40)},
		}},
		{Name: "db", Note: "exit code 3", Failed: true, Spans: []timeline.Span{
			{State: "RESTARTING", Activity: "restart", Failed: true, From: noon, To: at(5)}, {State: "RUNNING", Activity: "run", From: at(5), To: at(20)},
		}},
	}}
}

func TestFailuresAreMarkedWithAndWithoutColor(t *testing.T) {
	t.Parallel()
	paint := func(kind, text string) string {
		if kind == "failed" {
			return "<" + text + ">"
		}
		return text
	}
	const want = `
shop
        0s    10.0s 20.0s   40.0s
(task)  ·························
app     -------------------------
db      ~~~▆▆▆▆▆▆▆▆<✗>               <exit code 3>
        · resolve  - wait  ▆ run  ~ restart
        <✗> failed
`
	if diff := cmp.Diff(want[1:], failing().Text(46, paint)); diff != "" {
		t.Error(diff)
	}
	if picture := failing().SVG(); !strings.Contains(picture, `class="bad">exit code 3<`) || !strings.Contains(picture, "<title>wait for db, 30.0s</title>") || strings.Count(picture, `width="3"`) != 2 {
		t.Error(picture)
	}
	const steps = `
(task)  resolve 40.0s
app     wait for db 30.0s
        wait for init 10.0s
db      <restart 5.0s>  run 15.0s
`
	if diff := cmp.Diff(steps[1:], failing().Steps(32, paint)); diff != "" {
		t.Error(diff)
	}
	for width := range 40 {
		for line := range strings.Lines(failing().Steps(width, nil)) {
			if n := utf8.RuneCountInString(line) - 1; n > max(width, 6+2+1) {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
}

func TestTraceForOpenTelemetry(t *testing.T) {
	t.Parallel()
	trace := strings.Repeat("0123456789abcdef", 2)
	text, err := failing().OTLP(trace, map[string]string{"b": "2", "a": "1"})
	if err != nil {
		t.Fatal(err)
	}
	type span struct {
		TraceID, SpanID, ParentSpanID, Name string
		StartTimeUnixNano                   string
		Status                              *struct {
			Code    int
			Message string
		}
	}
	var doc struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []struct{ Key string } }
			ScopeSpans []struct{ Spans []span }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var names []string
	ids := map[string]string{"": ""}
	for _, s := range doc.ResourceSpans[0].ScopeSpans[0].Spans {
		if s.TraceID != trace || len(s.SpanID) != 16 || ids[s.SpanID] != "" {
			t.Errorf("%+v", s)
		}
		ids[s.SpanID] = s.Name
		row := ids[s.ParentSpanID] + "/" + s.Name
		if s.Status != nil {
			row += fmt.Sprintf(" %d %s", s.Status.Code, s.Status.Message)
		}
		names = append(names, row)
	}
	want := []string{"/(task)", "(task)/resolve", "(task)/app", "app/wait for db", "app/wait for init", "(task)/db 2 exit code 3", "db/restart 2 exit code 3", "db/run 2 exit code 3"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if start := doc.ResourceSpans[0].ScopeSpans[0].Spans[0].StartTimeUnixNano; start != strconv.FormatInt(noon.UnixNano(), 10) {
		t.Errorf("starts at %s", start)
	}
	if a := doc.ResourceSpans[0].Resource.Attributes; len(a) != 3 || a[0].Key != "service.name" || a[1].Key != "a" {
		t.Errorf("%+v", a)
	}
}
