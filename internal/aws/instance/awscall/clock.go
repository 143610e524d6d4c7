package awscall

import (
	"net/http"
	"sync"
	"time"
)

// tolerated is by how much a clock may differ from that of AWS, which takes signatures that are five minutes off.
const tolerated = 4 * time.Minute

// Clock is the time with which requests are signed: that of the host, corrected by what AWS said its own is when it refused a
// signature. The zero value is ready; nil is the host's clock. It is safe for concurrent use.
type Clock struct {
	// Changed, if not nil, is called when the correction changes.
	Changed func(offset time.Duration)

	mu     sync.Mutex
	offset time.Duration
}

// Offset is by how much the clock of AWS is ahead of the host's; 0 as long as the difference does not matter.
func (k *Clock) Offset() time.Duration {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offset
}

func (k *Clock) now() time.Time { return time.Now().Add(k.Offset()) }

// learn takes the time from the answer that refused a signature. True: the same request may be signed again.
func (k *Clock) learn(answer *http.Response) bool {
	if k == nil {
		return false
	}
	theirs, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return false
	}
	offset := time.Until(theirs).Round(time.Second)
	if offset.Abs() < tolerated {
		offset = 0
	}
	k.mu.Lock()
	changed := (offset-k.offset).Abs() > time.Minute || offset == 0 && k.offset != 0
	if changed {
		k.offset = offset
	}
	k.mu.Unlock()
	if changed && k.Changed != nil {
		k.Changed(offset)
	}
	return changed
}
