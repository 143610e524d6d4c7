package logbox

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend/syslog"
	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// syslogd is a syslog server of a distribution.
type syslogd struct {
	// networks it listens on, those of the option syslog-address.
	networks []string
	// config is its configuration: for formats that begin as given, it listens on the addresses by
	// network and sends what it understood to a port.
	config func(d daemon, format string) string
	args   []string
	// program is relative to where its packages were unpacked.
	program string
}

// daemon is one that runs.
type daemon struct {
	root, dir string
	// at has a port or a path for each network.
	at   map[string]string
	port string // where it sends messages to
	tls  [3]string
}

// rfc5424 reports whether messages have that format, which servers are told.
func rfc5424(format string) bool { return strings.HasPrefix(format, "rfc5424") }

// rsyslog has TLS of GnuTLS, gtls, or of OpenSSL, ossl.
func rsyslog(library string) syslogd {
	return syslogd{
		networks: []string{"udp", "tcp", "tcp+tls", "unixgram"},
		program:  "usr/sbin/rsyslogd",
		args:     []string{"-n", "-i", "DIR/pid", "-f", "DIR/conf", "-M", "LIB/rsyslog"},
		config: func(d daemon, _ string) string {
			return fmt.Sprintf(`global(workDirectory="%s" maxMessageSize="64k" defaultNetstreamDriverCAFile="%s" defaultNetstreamDriverCertFile="%s" defaultNetstreamDriverKeyFile="%s"
  parser.escapeControlCharactersOnReceive="off")
module(load="imudp")
module(load="imtcp")
module(load="imuxsock" sysSock.use="off")
template(name="understood" type="list" option.jsonf="on") {
  property(outname="priority" name="pri" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="program" name="programname" format="jsonf")
  property(outname="pid" name="procid" format="jsonf")
  property(outname="id" name="msgid" format="jsonf")
  property(outname="time" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="text" name="msg" format="jsonf")
}
ruleset(name="pass") { action(type="omfwd" target="127.0.0.1" port="%s" protocol="tcp" template="understood") }
input(type="imudp" address="127.0.0.1" port="%s" ruleset="pass")
input(type="imtcp" address="127.0.0.1" port="%s" ruleset="pass")
input(type="imtcp" address="127.0.0.1" port="%s" ruleset="pass" streamDriver.name="%s" streamDriver.mode="1" streamDriver.authMode="anon")
input(type="imuxsock" socket="%s" ruleset="pass" useSpecialParser="off" parseHostname="on" ignoreTimestamp="off" rateLimit.interval="0")
`, d.dir, d.tls[0], d.tls[1], d.tls[2], d.port, d.at["udp"], d.at["tcp"], d.at["tcp+tls"], library, d.at["unixgram"])
		},
	}
}

var syslogNG = syslogd{
	networks: []string{"udp", "tcp", "tcp+tls", "unix", "unixgram"},
	program:  "usr/sbin/syslog-ng",
	args:     []string{"-F", "--no-caps", "--stderr", "-f", "DIR/conf", "-p", "DIR/pid", "-c", "DIR/ctl", "-R", "DIR/persist", "--module-path", "MODULES"},
	config: func(d daemon, format string) string {
		flags, secured := "", fmt.Sprintf(`network(ip("127.0.0.1") port(%s) transport("tls")`, d.at["tcp+tls"])
		if rfc5424(format) {
			// Each message over TLS has its length in front, as RFC 5425 has it.
			flags, secured = "flags(syslog-protocol)", fmt.Sprintf(`syslog(ip("127.0.0.1") port(%s) transport("tls")`, d.at["tcp+tls"])
		}
		return fmt.Sprintf(`@version: 3.38
options { keep-hostname(yes); use-dns(no); log-msg-size(65536); stats-freq(0); };
source all {
  network(ip("127.0.0.1") port(%[2]s) transport("udp") %[1]s);
  network(ip("127.0.0.1") port(%[3]s) transport("tcp") %[1]s);
  %[4]s tls(key-file("%[5]s") cert-file("%[6]s") peer-verify(optional-untrusted)));
  unix-stream("%[7]s" %[1]s);
  unix-dgram("%[8]s" %[1]s);
};
destination pass {
  network("127.0.0.1" port(%[9]s) transport("tcp") template("$(format-json priority=$PRI host=$HOST program=$PROGRAM pid=$PID id=$MSGID time=$S_ISODATE text=$MESSAGE)\n"));
};
log { source(all); destination(pass); };
`, flags, d.at["udp"], d.at["tcp"], secured, d.tls[2], d.tls[1], d.at["unix"], d.at["unixgram"], d.port)
	},
}

// start runs a server that understands a format and returns what it understood.
func (s syslogd) start(t *testing.T, format string) (daemon, *records) {
	t.Helper()
	root := os.Getenv("PODTASK_SYSLOGS")
	if root == "" {
		t.Skip("PODTASK_SYSLOGS does not say where the servers were unpacked (hack/install.sh syslogs)")
	}
	address, got := stream(t, '\n', func(line []byte) string {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Sprintf("%v: %q", err, line)
		}
		return object(m)
	})
	d := daemon{root: root, dir: t.TempDir(), at: make(map[string]string)}
	_, d.port, _ = net.SplitHostPort(strings.TrimPrefix(address, "tcp://"))
	for _, network := range s.networks {
		d.at[network] = filepath.Join(d.dir, network)
		if !strings.HasPrefix(network, "unix") {
			d.at[network] = strconv.Itoa(int(freeport.For(t)))
		}
	}
	d.tls = certificate(t, d.dir)
	if err := os.WriteFile(filepath.Join(d.dir, "conf"), []byte(s.config(d, format)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, d)
	return d, got
}

// run starts the program and waits until it listens: rsyslog says so as to systemd, syslog-ng in what
// it prints.
func (s syslogd) run(t *testing.T, d daemon) {
	t.Helper()
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(d.dir, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	in := func(pattern string) string {
		found, _ := filepath.Glob(filepath.Join(d.root, pattern))
		return strings.Join(found, ":")
	}
	args := strings.NewReplacer("DIR", d.dir, "LIB", in("usr/lib/*-linux-gnu*"), "MODULES", in("usr/lib/syslog-ng/[0-9]*"))
	cmd := exec.CommandContext(t.Context(), filepath.Join(d.root, s.program))
	for _, arg := range s.args {
		cmd.Args = append(cmd.Args, args.Replace(arg))
	}
	cmd.Env = []string{"NOTIFY_SOCKET=" + filepath.Join(d.dir, "notify"), "LD_LIBRARY_PATH=" + in("usr/lib/*-linux-gnu*") + ":" + in("lib/*-linux-gnu*") + ":" + in("usr/lib/syslog-ng")}
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}, 2), make(chan struct{})
	go func() {
		for b := make([]byte, 1<<10); ; {
			n, err := notify.Read(b)
			if err != nil {
				return
			}
			if strings.Contains(string(b[:n]), "READY=1") {
				ready <- struct{}{}
			}
		}
	}()
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), "syslog-ng starting up") {
				ready <- struct{}{}
			}
		}
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		notify.Close()
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("%s ended", s.program)
	}
}

// certificate writes that of a server on loopback, which has signed it itself: authority,
// certificate and key.
func certificate(t *testing.T, dir string) (files [3]string) {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	pair := web.TLS.Certificates[0]
	web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	for i, text := range [][]byte{cert, cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		files[i] = filepath.Join(dir, fmt.Sprint("tls", i))
		if err := os.WriteFile(files[i], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tls.LoadX509KeyPair(files[1], files[2]); err != nil {
		t.Fatal(err)
	}
	return files
}

// address is that of a network as an option.
func (d daemon) address(network string) string {
	if strings.HasPrefix(network, "unix") {
		return network + "://" + d.at[network]
	}
	return network + "://127.0.0.1:" + d.at[network]
}

// told is output with lines of each kind, long ones, and UTF-8 where Docker cuts.
func told() (o output) {
	for i, line := range append(slices.Clone(kinds), strings.Repeat("x", 16<<10-1), strings.Repeat("long ", 8<<10), strings.Repeat("€", 5000), last) {
		o = append(o, write{logroute.Stream(i % 2), []byte(line + "\n")})
	}
	return append(o, write{logroute.Stream(len(o) % 2), []byte(last + "\n")})
}

// A real rsyslog and a real syslog-ng understand the messages of each format over each network, and
// the same of them as of Docker's.
func TestSyslogServersUnderstandTheSame(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]syslogd{"rsyslog": rsyslog("gtls"), "syslog-ng": syslogNG} {
		for _, format := range []string{"", "rfc3164", "rfc5424", "rfc5424micro"} {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				d, got := server.start(t, format)
				for _, network := range server.networks {
					t.Run(network, func(t *testing.T) { understood(t, d, got, network, format) })
				}
			})
		}
	}
}

// All lines reach an rsyslog with OpenSSL, which loses what it has not read of a connection that is
// closed at once. Docker's driver does that.
func TestSyslogServerWithOpenSSLGetsTheEnd(t *testing.T) {
	t.Parallel()
	d, got := rsyslog("ossl").start(t, "")
	var all [2][]string
	for i, network := range []string{"tcp", "tcp+tls"} {
		sendSyslog(t, d.options(network, ""), told())
		all[i] = got.take(t, 2)
	}
	same(t, all[0], all[1], func(string) bool { return false })
}

// options are those of the log driver.
func (d daemon) options(network, format string) map[string]string {
	options := map[string]string{"syslog-address": d.address(network), "syslog-format": format, "syslog-facility": "local3", "tag": "{{.Name}}"}
	if network == "tcp+tls" {
		options["syslog-tls-ca-cert"] = d.tls[0]
	}
	return options
}

func sendSyslog(t *testing.T, options map[string]string, o output) {
	t.Helper()
	parsedOptions, problems := logdriver.ParseSyslog(options)
	podtask(t, syslog.New(syslog.Config{Options: parsed(t, parsedOptions, problems), Origin: origin(options), Host: hostname(t), PID: os.Getpid()}), o)
}

func understood(t *testing.T, d daemon, got *records, network, format string) {
	options, o := d.options(network, format), told()
	docker(t, "syslog", options, o)
	byDocker := got.take(t, 2)
	sendSyslog(t, options, o)
	byPodtask := got.take(t, 2)
	same(t, timeless(byDocker), timeless(byPodtask), func(text string) bool { return strings.Contains(text, `priority="155"`) })
	if format == "rfc3164" && strings.HasPrefix(network, "unix") {
		return // a local message has no host: servers take it for the program
	}
	for _, want := range []string{`priority="158"`, `program="podtask-0123-app"`, fmt.Sprintf("pid=%q", fmt.Sprint(os.Getpid())), "-11-09T12:00:00", `hello" time=`} {
		if !strings.Contains(byPodtask[0], want) {
			t.Errorf("the first message has no %s: %s", want, byPodtask[0])
		}
	}
	if name := hostname(t); format != "" && !strings.Contains(byPodtask[0], fmt.Sprintf("host=%q", name)) {
		t.Errorf("the first message is not from %s: %s", name, byPodtask[0])
	}
	for _, want := range []string{"grüße €", strings.Repeat("€", 5000), strings.Repeat("x", 16<<10-1)} {
		if !slices.ContainsFunc(byPodtask, func(text string) bool { return strings.Contains(text, want+`" time=`) }) {
			t.Errorf("no message has %.20s", want)
		}
	}
}

// timeless are messages without their times.
func timeless(all []string) (without []string) {
	for _, text := range all {
		before, after, _ := strings.Cut(text, `time="`)
		_, after, _ = strings.Cut(after, `" `)
		without = append(without, before+after)
	}
	return without
}
