package deliver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/notice"
)

// Formats are the formats of webhooks.
var Formats = []string{"json", "slack", "discord", "matrix", "ntfy", "alertmanager", "eventbridge"}

// Document is a notice in JSON.
type Document struct {
	ID        string           `json:"id"`
	Rule      string           `json:"rule"`
	Host      string           `json:"host"`
	Condition notice.Condition `json:"condition"`
	// State is bad, well or test.
	State  string       `json:"state"`
	Title  string       `json:"title"`
	At     time.Time    `json:"at"`
	Since  time.Time    `json:"since,omitzero"`
	About  notice.About `json:"about"`
	Status string       `json:"status,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Exit   *int         `json:"exitCode,omitempty"`
	// Count is the number of notices for which this one stands, Others some of the further ones.
	Count  int      `json:"count"`
	Others []string `json:"others,omitempty"`
}

// DocumentOf returns a message as it is sent in JSON.
func DocumentOf(m notice.Message, host string) Document {
	state := "firing"
	switch {
	case m.Test:
		state = "test"
	case m.Well:
		state = "resolved"
	}
	return Document{
		ID: m.ID, Rule: m.Rule, Host: host, Condition: m.Condition, State: state, Title: m.Title(), At: m.At, Since: m.Since, About: m.About,
		Status: m.Status, Reason: notice.Short(m.Reason), Exit: m.ExitCode, Count: m.Count, Others: m.Others,
	}
}

// request is the body of a request, with what its headers have besides.
type request struct {
	method, path string
	body         []byte
	header       http.Header
}

// maxDiscord limits the characters of a message of Discord.
const maxDiscord = 2000

// format writes a message for a webhook.
func (s Sender) format(format string, m notice.Message) request {
	r := request{method: http.MethodPost, header: http.Header{"Content-Type": {"application/json"}}}
	text := m.Text(s.Host)
	var v any
	switch format {
	case "slack":
		v = map[string]any{"text": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)}
	case "discord":
		if len(text) > maxDiscord {
			text = strings.ToValidUTF8(text[:maxDiscord-3], "") + "..."
		}
		v = map[string]any{"content": text, "allowed_mentions": map[string]any{"parse": []string{}}}
	case "matrix": // the transaction makes a repeated request one message
		r.method, r.path = http.MethodPut, "/"+m.ID
		v = map[string]any{"msgtype": "m.text", "body": text}
	case "ntfy":
		r.body = []byte(text)
		tag, priority := "warning", "4"
		if m.Well || m.Test {
			tag, priority = "white_check_mark", "3"
		}
		r.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Title": {ascii(m.Title())}, "Tags": {tag}, "Priority": {priority}}
		return r
	case "alertmanager":
		v = []any{s.alert(m)}
	case "eventbridge":
		v = s.event(m)
	default:
		v = DocumentOf(m, s.Host)
	}
	r.body, _ = json.Marshal(v) // of text and numbers
	return r
}

// alertTime is until when Alertmanager has an alert of which it hears nothing more.
const alertTime = 7 * 24 * time.Hour

// alert is a message for the API of Alertmanager, version 2. The labels are the same when it is resolved.
func (s Sender) alert(m notice.Message) any {
	labels := map[string]string{"alertname": "podtask-" + string(m.Condition), "condition": string(m.Condition), "subject": m.Subject, "instance": s.Host, "rule": m.Rule}
	for name, value := range map[string]string{"service": m.About.Service, "schedule": m.About.Schedule, "stack": m.About.Stack, "container": m.About.Container} {
		if value != "" {
			labels[name] = value
		}
	}
	ends := m.At.Add(alertTime)
	if m.Well || m.Test {
		ends = m.At
	}
	starts := m.Since
	if starts.IsZero() {
		starts = m.At
	}
	return map[string]any{
		"labels": labels, "annotations": map[string]string{"summary": m.Title(), "description": m.Text(s.Host), "id": m.ID},
		"startsAt": starts.UTC().Format(time.RFC3339Nano), "endsAt": ends.UTC().Format(time.RFC3339Nano),
	}
}

// event is a message in the shape of EventBridge's events of ECS. What podtask does not know is left out.
func (s Sender) event(m notice.Message) any {
	at := m.At.UTC().Format("2006-01-02T15:04:05Z")
	e := map[string]any{
		"version": "0", "id": fmt.Sprintf("%s-%s-%s-%s-%s", m.ID[:8], m.ID[8:12], m.ID[12:16], m.ID[16:20], m.ID[20:]),
		"source": "aws.ecs", "account": arn.Account(), "region": arn.Region(), "time": at, "resources": []string{},
	}
	switch {
	case m.Condition == notice.RolledBack && m.About.Service != "":
		name, kind := "SERVICE_DEPLOYMENT_FAILED", "ERROR"
		if m.Well {
			name, kind = "SERVICE_DEPLOYMENT_COMPLETED", "INFO"
		}
		e["detail-type"], e["resources"] = "ECS Deployment State Change", []string{arn.Service("default", m.About.Service)}
		e["detail"] = map[string]any{"eventType": kind, "eventName": name, "deploymentId": m.About.Family, "updatedAt": at, "reason": notice.Short(m.Reason)}
	case m.About.Task != "":
		e["detail-type"], e["resources"] = "ECS Task State Change", []string{arn.Task("default", m.About.Task)}
		e["detail"] = s.taskDetail(m, at)
	default:
		e["source"], e["detail-type"], e["detail"] = "podtask", "podtask Notice", DocumentOf(m, s.Host)
	}
	return e
}

func (s Sender) taskDetail(m notice.Message, at string) any {
	status := "RUNNING"
	if m.Condition == notice.Failed && !m.Well {
		status = "STOPPED"
	}
	d := map[string]any{"clusterArn": arn.Cluster("default"), "taskArn": arn.Task("default", m.About.Task), "lastStatus": status, "desiredStatus": status, "updatedAt": at, "version": m.Seq, "containers": []any{}}
	if m.About.Service != "" {
		d["group"], d["startedBy"] = "service:"+m.About.Service, "ecs-svc/"+m.About.Service
	} else if m.About.Family != "" {
		d["group"] = "family:" + m.About.Family
	}
	if m.About.Container != "" {
		c := map[string]any{"name": m.About.Container, "lastStatus": "RUNNING"}
		if m.Condition == notice.Unhealthy {
			c["healthStatus"], d["healthStatus"] = "UNHEALTHY", "UNHEALTHY"
			if m.Well {
				c["healthStatus"], d["healthStatus"] = "HEALTHY", "HEALTHY"
			}
		}
		d["containers"] = []any{c}
	}
	if code, reason, ok := strings.Cut(m.Reason, ": "); ok && status == "STOPPED" {
		d["stopCode"], d["stoppedReason"], d["stoppedAt"] = code, notice.Short(reason), at
	}
	return d
}
