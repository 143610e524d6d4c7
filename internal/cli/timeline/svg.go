package timeline

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// Sizes in pixels.
const (
	svgWidth  = 960
	svgNarrow = 360 // for a phone of 390 with the borders of a page
	svgMargin = 16
	svgTitle  = 30 // height of the title
	svgAxis   = 22 // height of the axis above the bars
	svgLane   = 30 // height of a lane
	svgBar    = 18 // height of a bar in it
	svgAbove  = 18 // height of a name above its bar, in a narrow picture
	svgLegend = 34 // height of the legend
	svgLetter = 7  // width of a letter of the font, generously
)

// svgStyle has the colors for a light and a dark background.
const svgStyle = `.page{fill:#fff}.ink{fill:#111}.dim{fill:#475467}.grid{stroke:#e6e9ee}.bad{fill:#d1293d}` +
	`@media(prefers-color-scheme:dark){.page{fill:#16181d}.ink{fill:#f2f4f7}.dim{fill:#b4bac5}.grid{stroke:#343a46}.bad{fill:#ff7b80}}`

// SVG returns the chart as a self-contained picture without scripts. The tooltip of a span has its activity
// and length. The picture shrinks to the width of the page that it is on.
func (c Chart) SVG() string {
	c = c.drawn()
	p := picture{chart: c, width: svgWidth, lane: svgLane, left: svgMargin + svgLetter*8, right: svgMargin}
	for _, l := range c.Lanes {
		p.left = max(p.left, 2*svgMargin+svgLetter*len([]rune(l.Name)))
		if n := len([]rune(l.Note)); n > 0 {
			p.right = max(p.right, 2*svgMargin+svgLetter*n)
		}
	}
	p.left, p.right = min(p.left, svgWidth/3), min(p.right, svgWidth/3)
	return p.draw()
}

// NarrowSVG is SVG for a phone: the names and notes are above the bars, and letters keep their size.
func (c Chart) NarrowSVG() string {
	p := picture{chart: c.drawn(), width: svgNarrow, lane: svgLane + svgAbove, above: svgAbove, left: svgMargin, right: svgMargin}
	return p.draw()
}

func (p *picture) draw() string {
	c, legend := p.chart, p.legend()
	height := svgMargin + svgTitle + svgAxis + p.lane*len(c.Lanes) + svgLegend*len(legend) + svgMargin
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" style="max-width:100%%;height:auto" font-family="system-ui, sans-serif" font-size="12">`, p.width, height, p.width, height)
	p.printf(`<style>%s</style>`, svgStyle)
	p.printf(`<rect width="%d" height="%d" class="page"/>`, p.width, height)
	p.text(svgMargin, svgMargin+14, "start", "ink", cut(c.Title, (p.width-2*svgMargin)/(svgLetter+2)), ` font-size="15" font-weight="600"`)
	top := svgMargin + svgTitle + svgAxis
	p.axis(top)
	for i, l := range c.Lanes {
		p.drawLane(top+i*p.lane, l)
	}
	for i, entries := range legend {
		p.explain(top+p.lane*len(c.Lanes)+svgLegend*i+svgLegend/2, entries)
	}
	p.printf(`</svg>`)
	return p.out.String()
}

// picture is an SVG under construction.
type picture struct {
	chart       Chart
	width       int
	lane        int // height of a lane
	above       int // height of a name above its bar; 0 if it is beside
	left, right int // space beside the bars
	out         strings.Builder
}

func (p *picture) printf(format string, a ...any) { fmt.Fprintf(&p.out, format+"\n", a...) }

// text writes a text; y is its base line.
func (p *picture) text(x, y int, anchor, class, text, more string) {
	p.printf(`<text x="%d" y="%d" text-anchor="%s" class="%s"%s>%s</text>`, x, y, anchor, class, more, escape(text))
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic("timeline: a builder fails: " + err.Error())
	}
	return b.String()
}

// x returns the position of a fraction of the time, from 0 to 1.
func (p *picture) x(part float64) float64 {
	return float64(p.left) + part*float64(p.width-p.left-p.right)
}

// axis draws a line for each tick and its time above.
func (p *picture) axis(top int) {
	bottom := top + p.lane*len(p.chart.Lanes)
	for k := range ticks + 1 {
		x := int(p.x(float64(k) / ticks))
		p.printf(`<line x1="%d" y1="%d" x2="%d" y2="%d" class="grid"/>`, x, top-4, x, bottom)
		label, anchor := "0s", "middle"
		if k > 0 {
			label = span(p.chart.length() * time.Duration(k) / ticks)
		}
		if k == ticks && p.above > 0 { // it would reach beyond the edge
			anchor = "end"
		}
		p.text(x, top-8, anchor, "dim", label, "")
	}
}

// minSpan is the minimum width of a span, so that a short one can be seen.
const minSpan = 1.5

// drawLane draws a lane from top on: its name beside the bar or above it, the bar, and the note.
func (p *picture) drawLane(top int, l Lane) {
	base := top + svgLane/2 + 4
	class := "dim"
	if l.Failed {
		class = "bad"
	}
	bar := top + p.above
	if p.above > 0 {
		note := cut(l.Note, (p.width-2*svgMargin)/2/svgLetter)
		p.text(p.left, base, "start", "ink", cut(l.Name, (p.width-2*svgMargin)/svgLetter-len([]rune(note))-2), "")
		if note != "" {
			p.text(p.width-svgMargin, base, "end", class, note, "")
		}
	} else {
		p.text(p.left-svgMargin/2, base, "end", "ink", cut(l.Name, (p.left-svgMargin)/svgLetter), "")
		if l.Note != "" {
			p.text(p.width-p.right+svgMargin/2, base, "start", class, cut(l.Note, (p.right-svgMargin)/svgLetter), "")
		}
	}
	for _, s := range l.Spans {
		from, to := p.x(p.chart.at(s.From)), p.x(p.chart.at(s.To))
		p.printf(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s, %s</title></rect>`,
			from, bar+(svgLane-svgBar)/2, max(minSpan, to-from), svgBar, styleOf(s.Kind()).color, escape(cmp.Or(s.Activity, s.State)), span(s.To.Sub(s.From)))
		if s.Failed {
			p.failure(to, bar)
		}
	}
	if n := len(l.Spans); l.Failed && n > 0 {
		p.failure(p.x(p.chart.at(l.Spans[n-1].To)), bar)
	}
}

// failure marks the end of a span that failed.
func (p *picture) failure(x float64, top int) {
	p.printf(`<rect x="%.1f" y="%d" width="3" height="%d" fill="%s"/>`, x-3, top+(svgLane-svgBar)/2-2, svgBar+4, styleOf(FailedKind).color)
}

// entry is a kind of activity in the legend.
type entry struct {
	kind string
	x    int
}

// legend returns the positions of the kinds, in lines that fit into the picture.
func (p *picture) legend() (lines [][]entry) {
	x := p.width
	for _, s := range p.chart.kinds() {
		width := 17 + (svgLetter+2)*len(s) + 12 // capitals are wide
		if x+width > p.width {
			lines, x = append(lines, nil), svgMargin
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], entry{s, x})
		x += width
	}
	return lines
}

// explain draws a line of the legend.
func (p *picture) explain(middle int, entries []entry) {
	for _, e := range entries {
		p.printf(`<rect x="%d" y="%d" width="12" height="12" fill="%s"/>`, e.x, middle-2, styleOf(e.kind).color)
		p.text(e.x+17, middle+8, "start", "dim", e.kind, "")
	}
}
