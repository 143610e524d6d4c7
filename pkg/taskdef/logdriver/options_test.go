package logdriver

import (
	"strings"
	"testing"
	"time"
)

func options(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// What Docker refuses is refused (ValidateLogOpts of its drivers), and what would only fail
// later.
func TestMistakesOfEachDriverAreNamed(t *testing.T) {
	t.Parallel()
	const udp, url = "udp://h:1", "https://h:8088"
	for _, tt := range []struct {
		driver  Driver
		options map[string]string
		option  string
		want    string
	}{
		{"syslog", options("syslog-adress", udp), "syslog-adress", "no option"},
		{"syslog", options("syslog-address", "http://h:1"), "syslog-address", "none of the protocols"},
		{"syslog", options("syslog-address", "unix://"), "syslog-address", "no absolute path"},
		{"syslog", options("syslog-address", "tcp://h:70000"), "syslog-address", "a port"},
		{"syslog", options("syslog-address", "tcp://h:1/path"), "syslog-address", "a path"},
		{"syslog", options("syslog-facility", "local8"), "syslog-facility", "no facility"},
		{"syslog", options("syslog-facility", "24"), "syslog-facility", "no facility"},
		{"syslog", options("syslog-format", "xml"), "syslog-format", "no syslog-format"},
		{"syslog", options("syslog-tls-key", "/k"), "", "belong together"},
		{"syslog", options("tag", "{{.Nme}}"), "tag", "Nme"},
		{"syslog", options("tag", "{{.Name"), "tag", "unclosed"},
		{"syslog", options("tag", "{{range 1000000000}}{{end}}"), "tag", "a loop"},
		{"syslog", options("labels-regex", "("), "labels-regex", "not valid"},
		{"gelf", options(), "", "needs the option gelf-address"},
		{"gelf", options("gelf-address", "h:1"), "gelf-address", ""},
		{"gelf", options("gelf-address", "udp://h"), "gelf-address", "a port"},
		{"gelf", options("gelf-address", "tcp://h:1", "gelf-compression-type", "gzip"), "gelf-compression-type", "udp only"},
		{"gelf", options("gelf-address", udp, "gelf-tcp-max-reconnect", "1"), "gelf-tcp-max-reconnect", "tcp only"},
		{"gelf", options("gelf-address", udp, "gelf-compression-type", "lz4"), "gelf-compression-type", "no gelf-compression-type"},
		{"gelf", options("gelf-address", udp, "gelf-compression-level", "10"), "gelf-compression-level", "not a number of that range"},
		{"gelf", options("gelf-address", "tcp://h:1", "gelf-tcp-reconnect-delay", "-1"), "gelf-tcp-reconnect-delay", "range"},
		{"splunk", options("splunk-token", "t"), "", "needs the option splunk-url"},
		{"splunk", options("splunk-url", url), "", "needs the option splunk-token"},
		{"splunk", options("splunk-token", "t", "splunk-url", url+"/path"), "splunk-url", "not that of"},
		{"splunk", options("splunk-token", "t", "splunk-url", "h:8088"), "splunk-url", "not that of"},
		{"splunk", options("splunk-token", "t", "splunk-url", url, "splunk-format", "yaml"), "splunk-format", "no splunk-format"},
		{"splunk", options("splunk-token", "t", "splunk-url", url, "splunk-gzip", "maybe"), "splunk-gzip", "true or false"},
		{"splunk", options("splunk-token", "t", "splunk-url", url, "splunk-gzip-level", "11"), "splunk-gzip-level", "range"},
		{"fluentd", options("fluentd-address", "udp://h:1"), "fluentd-address", "none of the protocols"},
		{"fluentd", options("fluentd-address", "tcp://h:1/x"), "fluentd-address", "a path"},
		{"fluentd", options("fluentd-address", "unix:///"), "fluentd-address", "no absolute path"},
		{"fluentd", options("fluentd-async", "perhaps"), "fluentd-async", "true or false"},
		{"fluentd", options("fluentd-retry-wait", "fast"), "fluentd-retry-wait", "not a duration"},
		{"fluentd", options("fluentd-write-timeout", "-1s"), "fluentd-write-timeout", "not a duration"},
		{"fluentd", options("fluentd-buffer-limit", "big"), "fluentd-buffer-limit", "not a size"},
		{"fluentd", options("fluentd-max-retries", "99999999999"), "fluentd-max-retries", "range"},
		{"fluentd", options("fluentd-async-reconnect-interval", "1ms"), "fluentd-async-reconnect-interval", "out of range"},
		{"fluentd", options("mode", "fast"), "mode", "no mode"},
		{"fluentd", options("tag", "a\nb"), "tag", "line break"},
	} {
		problems := tt.driver.Check(tt.options, nil)
		if len(problems) != 1 || problems[0].Option != tt.option || !strings.Contains(problems[0].Message, tt.want) {
			t.Errorf("%s %v: %+v, want %s: %s", tt.driver, tt.options, problems, tt.option, tt.want)
		}
	}
	if p := Splunk.Check(options("splunk-url", url), []string{SplunkToken}); len(p) > 0 {
		t.Errorf("a token that is a secret: %+v", p)
	}
}

func TestAddressesAreReadAsDockerDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "tcp://127.0.0.1:24224", "h": "tcp://h:24224", "h:1": "tcp://h:1", "tcp://:9": "tcp://127.0.0.1:9", "tls://h": "tls://h:24224",
		"unix:///run/f.sock": "unix:///run/f.sock", "tcp://[::1]:5": "tcp://[::1]:5", "[::1]": "tcp://[::1]:24224",
	} {
		if f, problems := ParseFluentd(options("fluentd-address", text)); len(problems) > 0 || f.Address.String() != want || f.Ack != !strings.HasPrefix(want, "unix") {
			t.Errorf("%q is %+v, %v; want %s", text, f, problems, want)
		}
	}
	for text, want := range map[string]string{"": "this host", "udp://h": "udp://h:514", "tcp+tls://h:6514": "tls://h:6514", "unixgram:///dev/log": "unixgram:///dev/log"} {
		if s, problems := ParseSyslog(options("syslog-address", text)); len(problems) > 0 || s.Address.String() != want {
			t.Errorf("%q is %+v, %v; want %s", text, s, problems, want)
		}
	}
	if s, problems := ParseSyslog(options("syslog-facility", "local3")); len(problems) > 0 || s.Facility != 19 {
		t.Errorf("local3 is %d, %v", s.Facility, problems)
	}
	if s, problems := ParseSplunk(options("splunk-url", "https://h:8088/", "splunk-token", "t")); len(problems) > 0 || s.URL != "https://h:8088/services/collector/event/1.0" || s.Format != "inline" {
		t.Errorf("%+v, %v", s, problems)
	}
	if f, _ := ParseFluentd(options("fluentd-request-ack", "false", "fluentd-write-timeout", "3s")); f.Ack || f.WriteTimeout != 3*time.Second {
		t.Errorf("%+v", f)
	}
}

var shop = Origin{
	Config: options("tag", "x"), ContainerID: "0123456789abcdef0123456789abcdef", ContainerName: "/podtask-shop-app", ContainerEntrypoint: "/bin/app", ContainerArgs: []string{"-v", "1"},
	ContainerImageID: "sha256:fedcba9876543210", ContainerImageName: "registry/app:1", DaemonName: "podtask",
	ContainerEnv: []string{"STAGE=test", "EMPTY=", "PATH=/bin"}, ContainerLabels: options("team", "blue", "tier", "web"),
}

// The rows are Docker's documentation of the option tag, and the functions of its templates.
func TestTagsAreTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{.ID}}": "0123456789ab", "{{.FullID}}": shop.ContainerID, "{{.Name}}": "podtask-shop-app", "{{.ImageID}}": "sha256:fedcb", "{{.ImageFullID}}": "sha256:fedcba9876543210",
		"{{.ImageName}}/{{.Name}}/{{.ID}}": "registry/app:1/podtask-shop-app/0123456789ab", "{{.DaemonName}}": "podtask", "{{.Command}}": "/bin/app -v 1",
		`{{upper .Name}} {{index .ContainerLabels "team"}}`: "PODTASK-SHOP-APP blue", `{{with .ContainerLabels}}{{.tier}}{{end}}`: "web",
		`{{truncate .Name 7}}{{pad "a" 1 2}}|{{json .ContainerArgs}}`: `podtask a  |["-v","1"]`, `{{join .ContainerArgs "+"}}{{if .ContainerID}}!{{end}}`: "-v+1!", "plain": "plain",
	} {
		tag, err := ParseTag(text)
		if got := tag.Of(shop); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestLabelsAndVariablesAreChosen(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]map[string]string{
		"blue test": options("labels", "team,absent", "env", "STAGE"),
		"web /bin":  options("labels-regex", "^ti", "env-regex", "^P"),
		" ":         options(),
	} {
		p := newOptionParser(Syslog, syslogOptions, o)
		got := p.attributes().Of(shop)
		text := got["team"] + got["tier"] + " " + got["STAGE"] + got["PATH"]
		if text != want || len(got) != len(strings.Fields(want)) {
			t.Errorf("%v chooses %v", o, got)
		}
	}
}

// Options come from files of strangers: whatever they are, the answer is quick and a rendered
// tag is small and on one line.
func FuzzOptions(f *testing.F) {
	f.Add("syslog", "tag", "{{.Name}}", "udp://h:1")
	f.Add("gelf", "labels-regex", "^a", "tcp://[::1]:5")
	f.Add("splunk", "splunk-token", "{{", "https://h:1")
	f.Add("fluentd", "tag", `{{pad "x" 1000000000 1}}`, "unix:///x")
	f.Add("awslogs", "tag", `{{printf "%1000000d" 1}}`, "")
	f.Fuzz(func(t *testing.T, driver, name, value, address string) {
		o := options(driver+"-address", address, driver+"-url", address, name, value)
		for _, p := range Driver(driver).Check(o, nil) {
			if _, given := o[p.Option]; p.Option != "" && !given {
				t.Errorf("the problem is of %q", p.Option)
			}
		}
		Driver(driver).Destination(o, "app", "task", shop)
		tag, err := ParseTag(value)
		if err != nil {
			return
		}
		if got := tag.Of(shop); len(got) > maxOption || strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("the tag is %q", got)
		}
	})
}
