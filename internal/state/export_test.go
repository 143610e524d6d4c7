package state

import "os"

// OnSync puts fn in the place of the sync of a part's content.
func (l *Log) OnSync(fn func(*os.File) error) { l.sync = fn }
