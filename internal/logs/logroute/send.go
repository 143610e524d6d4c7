package logroute

import "time"

// Sent is the result of one call of a sender.
type Sent struct {
	// Next is the position behind it. It is set only if Moved.
	Next  Position
	Moved bool
	// Until is the time of the youngest line.
	Until time.Time
	// Lines and Bytes were acknowledged.
	Lines, Bytes int64
	// Lost lines were refused for good, and Why.
	Lost int64
	Why  string
}

// Limits bound the lines that a sender is given.
type Limits struct {
	// LineBytes is the most bytes of a line; a longer one comes in parts.
	LineBytes int
	// Wait is the longest time that lines wait for others.
	Wait time.Duration
}

// SendError is the error for lines that were not acknowledged. They are still to be sent.
type SendError struct {
	// Text has no secrets.
	Text string
	// Pause is the wait before the next attempt; 0: a growing time.
	Pause time.Duration
}

// Error returns the text.
func (e *SendError) Error() string { return e.Text }
