// Command testbox is the only program in the images of the end-to-end tests.
// Its arguments are steps separated by "--", done one after the other:
//
//	testbox print hello -- write /tmp/ready -- sleep 10s -- exit 3
//
// A step that fails prints why to stderr and ends testbox with code 1, so that
// single steps serve as health checks too ("testbox exists /tmp/ready").
// SIGTERM ends it at once with code 143 and SIGINT with 130, also as process 1,
// unless a term step said otherwise. At the end it exits 0, or continues while it
// serves.
//
//	exit N               end with code N
//	term ignore|N        from now on ignore SIGTERM, or answer it with code N
//	sleep DURATION       "forever" for ever
//	print TEXT...        to stdout
//	eprint TEXT...       to stderr
//	lines N [FIRST SIZE] N numbered lines to stdout, from FIRST (1) on, of at least SIZE bytes
//	env NAME             print a variable; fail if it is not set
//	where                print uid, gid, working directory and host name
//	mount PATH           print what is mounted there: type, and ro or rw
//	size PATH            print the size of the file system there in bytes
//	limit NAME           print the soft and the hard resource limit
//	status KEY           print a line of /proc/self/status, such as CapEff
//	processes            print how many processes it sees
//	route FILE           be a log router that listens where a configuration of fluent-bit
//	                     says, and print each record: TAG SOURCE TEXT
//	mute FILE            the same, but acknowledge nothing
//	interfaces           print the names of the network interfaces
//	resolve NAME         print the addresses of a host name; fail if it has none
//	resolver             print name servers, search domains and options
//	cannot STEP          do a step that has to fail
//	write FILE [TEXT...] make or replace a file
//	put FILE TEXT...     write into FILE as it is, where write would replace it
//	cat FILE             print it; ${NAME} is a variable, as in write
//	input                print a line of the standard input
//	stat PATH            print mode, uid and gid
//	list DIR             print the names in it that do not begin with a dot
//	remove FILE          remove it
//	exists FILE          fail if it is missing
//	wait FILE            until it is there
//	tally FILE N         add one to the number in FILE; fail while it is below N
//	serve PORT           HTTP on all addresses from now on: / says the host name,
//	                     /env/NAME a variable; PORT 0 is a free one, which is printed;
//	                     /exists/FILE is 200 or 503; the health service of gRPC says
//	                     of a service whether a file of that name is there; neither
//	                     answers while there is /tmp/hang; /events is a stream of
//	                     events, /socket a WebSocket, both with the variable GREETING
//	door PORT FILE       listen from now on while there is a file
//	echo PORT            send back each UDP packet from now on
//	get URL              print an answer; fail if it is not 200; ${NAME} is a variable
//	send METHOD URL TEXT the same for a request with a body
//	await URL            the same, but ask again until it is
//	ask URL FILE         ask again and again, on connections of their own, until there is a file;
//	                     print each answer that differs from the one before; fail at the first failure
//	try URL...           print for each the status of the answer, or "no" for none
//	flood ADDR N         open N connections to an address or URL, send nothing, and open each
//	                     again when it is closed; print "flooding" when all were opened
//	crash                end with SIGABRT, with a core file if its limit allows one
//	alloc MIB            take and touch memory, and keep it
//	burn DURATION        keep a processor busy
//	spawn N              start N idle child processes; fail at the first that cannot
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const pollPause = 20 * time.Millisecond

func main() {
	if filepath.Base(os.Args[0]) == "tar" {
		if err := asTar(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "tar:", err)
			os.Exit(2)
		}
		return
	}
	box := &box{}
	box.handleSignals()
	if err := box.run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testbox:", err)
		os.Exit(1)
	}
	if box.serving {
		select {}
	}
}

// box is what steps leave behind for later ones.
type box struct {
	serving bool
	memory  [][]byte
	onTerm  atomic.Int64 // exit code for SIGTERM; -1: ignore it
}

// handleSignals is needed because the kernel drops signals process 1 has no
// handler for.
func (b *box) handleSignals() {
	b.onTerm.Store(128 + int64(syscall.SIGTERM))
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for s := range signals {
			switch code := int(b.onTerm.Load()); {
			case s == syscall.SIGINT:
				os.Exit(128 + int(syscall.SIGINT))
			case code >= 0:
				os.Exit(code)
			}
		}
	}()
}

// step is one verb: how many arguments it takes (max -1: any number) and what
// it does.
type step struct {
	min, max int
	do       func(b *box, args []string) error
}

var steps = map[string]step{
	"exit": {1, 1, func(_ *box, args []string) error {
		return withInt(args[0], func(n int) error { os.Exit(n); return nil })
	}},
	"term":       {1, 1, (*box).term},
	"sleep":      {1, 1, sleep},
	"print":      {0, -1, func(_ *box, args []string) error { return say(os.Stdout, args) }},
	"eprint":     {0, -1, func(_ *box, args []string) error { return say(os.Stderr, args) }},
	"lines":      {1, 3, lines},
	"env":        {1, 1, printEnv},
	"where":      {0, 0, where},
	"mount":      {1, 1, mount},
	"size":       {1, 1, size},
	"limit":      {1, 1, limit},
	"status":     {1, 1, status},
	"processes":  {0, 0, processes},
	"interfaces": {0, 0, interfaces},
	"resolve":    {1, 1, resolve},
	"resolver":   {0, 0, resolver},
	"write":      {1, -1, write},
	"put":        {1, -1, put},
	"stat":       {1, 1, stat},
	"list":       {1, 1, list},
	"cat":        {1, 1, cat},
	"remove":     {1, 1, func(_ *box, args []string) error { return os.Remove(args[0]) }},
	"exists":     {1, 1, func(_ *box, args []string) error { _, err := os.Stat(args[0]); return err }},
	"input":      {0, 0, input},
	"wait":       {1, 1, wait},
	"tally":      {2, 2, tally},
	"serve":      {1, 1, (*box).serve},
	"echo":       {1, 1, (*box).echo},
	"door":       {2, 2, (*box).door},
	"get":        {1, 1, func(_ *box, args []string) error { return get(args[0]) }},
	"send":       {3, 3, func(_ *box, args []string) error { return request(args[0], args[1], args[2]) }},
	"await":      {1, 1, await},
	"ask":        {2, 2, ask},
	"try":        {1, -1, try},
	"flood":      {2, 2, (*box).flood},
	"route":      {1, 1, (*box).route},
	"mute":       {1, 1, (*box).mute},
	"crash":      {0, 0, crash},
	"alloc":      {1, 1, (*box).alloc},
	"burn":       {1, 1, burn},
	"spawn":      {1, 1, spawn},
}

// A step that does others would be in a map that knows itself.
func init() { steps["cannot"] = step{1, -1, cannot} }

// run does the steps in args.
func (b *box) run(args []string) error {
	for len(args) > 0 {
		end := slices.Index(args, "--")
		rest := []string(nil)
		words := args
		if end >= 0 {
			words, rest = args[:end:end], args[end+1:] // a step may append to its words
		}
		if err := b.runStep(words); err != nil {
			return err
		}
		args = rest
	}
	return nil
}

func (b *box) runStep(words []string) error {
	if len(words) == 0 {
		return errors.New("an empty step; write VERB [ARGUMENT...] [-- VERB ...]")
	}
	verb, args := words[0], words[1:]
	s, ok := steps[verb]
	if !ok {
		return fmt.Errorf("no step is called %q", verb)
	}
	if len(args) < s.min || s.max >= 0 && len(args) > s.max {
		return fmt.Errorf("%s: %d arguments", verb, len(args))
	}
	if err := s.do(b, args); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

func withInt(text string, do func(int) error) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return do(n)
}

func (b *box) term(args []string) error {
	if args[0] == "ignore" {
		b.onTerm.Store(-1)
		return nil
	}
	return withInt(args[0], func(n int) error { b.onTerm.Store(int64(n)); return nil })
}

func sleep(_ *box, args []string) error {
	if args[0] == "forever" {
		select {}
	}
	d, err := time.ParseDuration(args[0])
	time.Sleep(d)
	return err
}

func say(w io.Writer, words []string) error {
	_, err := fmt.Fprintln(w, strings.Join(words, " "))
	return err
}

func lines(_ *box, args []string) error {
	first, size := 1, 0
	for i, to := range []*int{&first, &size} {
		if i+1 < len(args) {
			n, err := strconv.Atoi(args[i+1])
			if err != nil {
				return err
			}
			*to = n
		}
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	return withInt(args[0], func(n int) error {
		for i := first; i < first+n; i++ {
			line := fmt.Sprint("line ", i)
			if _, err := fmt.Fprintln(out, line+strings.Repeat(".", max(0, size-len(line)-1))); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}

func printEnv(_ *box, args []string) error {
	value, ok := os.LookupEnv(args[0])
	if !ok {
		return fmt.Errorf("%s is not set", args[0])
	}
	return say(os.Stdout, []string{args[0] + "=" + value})
}

func where(*box, []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = fmt.Printf("uid=%d gid=%d dir=%s host=%s\n", os.Getuid(), os.Getgid(), dir, host)
	return err
}

func (b *box) alloc(args []string) error {
	return withInt(args[0], func(n int) error {
		for range n {
			piece := make([]byte, 1<<20)
			for i := 0; i < len(piece); i += 4096 {
				piece[i] = 1
			}
			b.memory = append(b.memory, piece)
		}
		return nil
	})
}

// crash ends the process as C's abort does. A process 1 survives that.
func crash(*box, []string) error {
	debug.SetTraceback("crash")
	signal.Reset()
	go panic("crash")
	select {}
}

func burn(_ *box, args []string) error {
	d, err := time.ParseDuration(args[0])
	for start := time.Now(); time.Since(start) < d; {
	}
	return err
}

func spawn(_ *box, args []string) error {
	return withInt(args[0], func(n int) error {
		for i := range n {
			if err := exec.Command("/proc/self/exe", "sleep", "forever").Start(); err != nil {
				return fmt.Errorf("child %d: %w", i+1, err)
			}
		}
		return nil
	})
}
