// Package lazy has regular expressions and tables that are made at their first use. A command of podtask uses few of the
// hundreds that its packages have, and making all of them was a quarter of its start.
package lazy

import (
	"regexp"
	"sync"
)

// Value returns a function that calls make at its first call and returns the same value at each. It is safe for
// concurrent use.
func Value[T any](make func() T) func() T { return sync.OnceValue(make) }

// Regexp is a regular expression of the syntax of package regexp. It is safe for concurrent use.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// MustCompile returns an expression. One that does not parse panics at its first use; archtest compiles all.
func MustCompile(text string) *Regexp { return &Regexp{text: text} }

// Get returns the compiled expression.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

// String returns the text of the expression.
func (r *Regexp) String() string { return r.text }

// MatchString calls the method of the compiled expression.
func (r *Regexp) MatchString(s string) bool { return r.Get().MatchString(s) }

// FindString calls the method of the compiled expression.
func (r *Regexp) FindString(s string) string { return r.Get().FindString(s) }

// FindStringIndex calls the method of the compiled expression.
func (r *Regexp) FindStringIndex(s string) []int { return r.Get().FindStringIndex(s) }

// FindStringSubmatch calls the method of the compiled expression.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.Get().FindStringSubmatch(s) }

// FindAllString calls the method of the compiled expression.
func (r *Regexp) FindAllString(s string, n int) []string { return r.Get().FindAllString(s, n) }

// FindAllStringSubmatch calls the method of the compiled expression.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.Get().FindAllStringSubmatch(s, n)
}

// ReplaceAllString calls the method of the compiled expression.
func (r *Regexp) ReplaceAllString(s, replacement string) string {
	return r.Get().ReplaceAllString(s, replacement)
}

// ReplaceAllStringFunc calls the method of the compiled expression.
func (r *Regexp) ReplaceAllStringFunc(s string, replace func(string) string) string {
	return r.Get().ReplaceAllStringFunc(s, replace)
}
