// Package wait is for tests that wait for what nobody tells them, such as the end
// of somebody else's process.
package wait

import (
	"os"
	"time"
)

// Patience bounds every wait, so that what never comes fails the test that waits
// for it and not the whole run. No assertion depends on it. It is more in the virtual
// machine, which is slow, and slower beside other work.
var Patience = patience()

func patience() time.Duration {
	if os.Getenv("PODTASK_BED") == "vm" {
		return 5 * time.Minute
	}
	return 100 * time.Second
}

// pace is how often it is looked.
const pace = 25 * time.Millisecond

// Until returns true as soon as holds does, and false once patience has run out.
func Until(holds func() bool) bool {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			return false
		}
	}
	return true
}
