package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// row is one measurement: that of podtask, and that of its peer at about the same time. Without a peer it is compared
// with goal, which is a limit then; otherwise goal is one for the ratio. 0 is no goal.
type row struct {
	what, peer   string
	goal         float64
	ours, theirs float64
}

// value returns the figure of a row: its time, or the ratio to its peer. It is compared with goal.
func (r row) value() float64 {
	if r.peer == "" {
		return r.ours
	}
	return r.ours / r.theirs
}

func groups(rows []row) map[string][]row {
	found := map[string][]row{}
	for _, r := range rows {
		name := r.what + " / " + r.peer
		found[name] = append(found[name], r)
	}
	return found
}

// quantile returns the nearest of the values of f, at 0 the lowest and at 1 the highest.
func quantile(rows []row, f func(row) float64, q float64) float64 {
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = f(r)
	}
	slices.Sort(values)
	return values[int(math.Round(float64(len(values)-1)*q))]
}

// table prints two tables in Markdown: the medians of pairs, with the quartiles of their ratios, and what has a limit.
func table(rows []row) string {
	var pairs, limits strings.Builder
	all := groups(rows)
	ours, theirs := func(r row) float64 { return r.ours }, func(r row) float64 { return r.theirs }
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g := all[name]
		goal := ""
		if g[0].goal != 0 {
			goal = number(g[0].goal)
		}
		if g[0].peer == "" {
			fmt.Fprintf(&limits, "| %s | | %s to %s | %s | %s | %d |\n", g[0].what, number(quantile(g, ours, 0)), number(quantile(g, ours, 1)),
				goal, number(quantile(g, ours, 0.5)), len(g))
			continue
		}
		fmt.Fprintf(&pairs, "| %s | %s | %.0f / %.0f ms | %s | %.2f (%.2f to %.2f) | %d |\n", g[0].what, g[0].peer, quantile(g, ours, 0.5), quantile(g, theirs, 0.5),
			goal, quantile(g, row.value, 0.5), quantile(g, row.value, 0.25), quantile(g, row.value, 0.75), len(g))
	}
	return "| what | peer | times, podtask / peer | goal | ratio (quartiles) | pairs |\n|---|---|---|---|---|---|\n" + pairs.String() +
		"\n| what | | lowest to highest | limit | median | measurements |\n|---|---|---|---|---|---|\n" + limits.String()
}

// above returns the rows whose median is more than 15 percent above its goal.
func above(rows []row) (found []string) {
	all := groups(rows)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if goal := all[name][0].goal; goal != 0 && quantile(all[name], row.value, 0.5) > 1.15*goal {
			found = append(found, strings.TrimSuffix(name, " / "))
		}
	}
	return found
}

func number(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }
