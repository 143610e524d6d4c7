package awsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
)

// accountSettings are the operations on the settings of the account. They are kept, and have no
// effect.
type accountSettings struct {
	records *state.Store

	mu sync.Mutex // for one change
}

func (a *accountSettings) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("ListAccountSettings", protocol.Honor("name", "value", "principalArn", "effectiveSettings", "maxResults", "nextToken"), a.list),
		protocol.Define("PutAccountSetting", protocol.Honor("name!", "value!", "principalArn"), a.put),
		protocol.Define("PutAccountSettingDefault", protocol.Honor("name!", "value!"), a.putDefault),
		protocol.Define("DeleteAccountSetting", protocol.Honor("name!", "principalArn"), a.delete),
	}
}

const kindAccountSetting = "account-setting"

// root is the principal with the defaults of the account.
func root() string { return arn.Of("iam", "root") }

// caller is the principal of each request.
func caller() string { return arn.Of("iam", "user/podtask") }

// settingKey names the record of a setting of a principal.
func settingKey(name, principal string) string {
	return resource.RecordKey(kindAccountSetting, arn.Lasting(principal)+"\n"+name)
}

// accountSetting is a setting of ECS: its values, the first of which is the default. A setting
// that has one value only cannot be changed.
type accountSetting struct {
	name   string
	values []string
}

var accountSettingNames = []accountSetting{
	{"serviceLongArnFormat", []string{"enabled"}},
	{"taskLongArnFormat", []string{"enabled"}},
	{"containerInstanceLongArnFormat", []string{"enabled"}},
	{"awsvpcTrunking", []string{"disabled", "enabled"}},
	{"containerInsights", []string{"disabled", "enabled", "enhanced"}},
	{"fargateFIPSMode", []string{"disabled", "enabled"}},
	{"tagResourceAuthorization", []string{"on", "off", "enabled", "disabled"}},
	{"fargateTaskRetirementWaitPeriod", []string{"7", "0", "14"}},
	{"guardDutyActivate", []string{"off", "on"}},
	{"defaultLogDriverMode", []string{"non-blocking", "blocking"}},
	{"dualStackIPv6", []string{"disabled", "enabled"}},
	{"fargateEventWindows", []string{"disabled", "enabled"}},
}

// fixed reports whether every account has the setting, and with that value.
func (s accountSetting) fixed() bool { return len(s.values) == 1 }

func findAccountSetting(name string) (accountSetting, error) {
	i := slices.IndexFunc(accountSettingNames, func(s accountSetting) bool { return s.name == name })
	if i < 0 {
		var names []string
		for _, s := range accountSettingNames {
			names = append(names, s.name)
		}
		return accountSetting{}, protocol.Invalidf("%s should be one of [%s]", protocol.Shortened(name), strings.Join(names, ","))
	}
	return accountSettingNames[i], nil
}

// accountSettingRecord is a setting that a client has made.
type accountSettingRecord struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Principal string `json:"principal"`
	Value     string `json:"value"`
}

// settingDoc is a setting in answers.
type settingDoc struct {
	protocol.NameValue
	Principal string `json:"principalArn"`
	Type      string `json:"type"`
}

type settingAnswer struct {
	Setting settingDoc `json:"setting"`
}

func (s accountSetting) document(value, principal string) settingDoc {
	kind := "user"
	if s.name == "guardDutyActivate" {
		kind = "aws_managed"
	}
	return settingDoc{protocol.NameValue{Name: s.name, Value: value}, principal, kind}
}

// made returns what a client has set for a principal.
func (a *accountSettings) made(name, principal string) (value string, ok bool, err error) {
	data, err := a.records.Get(settingKey(name, principal))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	var r accountSettingRecord
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r.Value, err == nil, err
}

// effective is the setting that counts for a principal: its own, that of the account, or ECS's.
func (a *accountSettings) effective(s accountSetting, principal string) (settingDoc, error) {
	for _, p := range []string{principal, root()} {
		if value, ok, err := a.made(s.name, p); err != nil || ok {
			return s.document(value, p), err
		}
	}
	return s.document(s.values[0], root()), nil
}

type accountSettingIn struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Principal string `json:"principalArn"`
}

func (a *accountSettings) put(_ context.Context, in accountSettingIn, _ protocol.Fields) (any, error) {
	s, err := findAccountSetting(in.Name)
	if err != nil {
		return nil, err
	}
	if principal := in.Principal; principal != "" && !strings.HasPrefix(principal, arn.Of("iam", "")) {
		return nil, protocol.Invalidf("principalArn: %q is no principal of account %s", protocol.Shortened(principal), arn.Account())
	}
	switch {
	case s.fixed() && in.Value == "disabled":
		return nil, protocol.Invalidf("You can no longer disable Long Arn settings.")
	case s.name == "guardDutyActivate":
		return nil, protocol.Invalidf("name: only Amazon GuardDuty can change %s", s.name)
	}
	if err := protocol.OneOf("value", in.Value, s.values...); err != nil {
		return nil, err
	}
	r := accountSettingRecord{kindAccountSetting, s.name, cmp.Or(in.Principal, caller()), in.Value}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return settingAnswer{s.document(r.Value, r.Principal)}, a.records.Put(settingKey(r.Name, r.Principal), data)
}

func (a *accountSettings) putDefault(ctx context.Context, in accountSettingIn, kept protocol.Fields) (any, error) {
	in.Principal = root()
	return a.put(ctx, in, kept)
}

func (a *accountSettings) delete(_ context.Context, in accountSettingIn, _ protocol.Fields) (any, error) {
	s, err := findAccountSetting(in.Name)
	if err != nil {
		return nil, err
	}
	principal := cmp.Or(in.Principal, caller())
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.records.Delete(settingKey(s.name, principal)); err != nil {
		return nil, err
	}
	doc, err := a.effective(s, principal)
	return settingAnswer{doc}, err
}

type listAccountSettingsIn struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Principal string `json:"principalArn"`
	Effective bool   `json:"effectiveSettings"`
	// Most is 0 for the usual size of a page: the SDK sends zeros.
	Most  int    `json:"maxResults"`
	Token string `json:"nextToken"`
}

// list lists the effective settings, or those of a principal. That ARNs are long cannot be changed
// and is in both.
func (a *accountSettings) list(_ context.Context, in listAccountSettingsIn, _ protocol.Fields) (any, error) {
	if in.Name != "" {
		if _, err := findAccountSetting(in.Name); err != nil {
			return nil, err
		}
	}
	principal := cmp.Or(in.Principal, caller())
	found := make(map[string]settingDoc)
	var keys []string
	for _, s := range accountSettingNames {
		doc, err := a.effective(s, principal)
		if err != nil {
			return nil, err
		}
		listed := in.Effective || s.fixed() || doc.Principal == principal && a.isMade(s.name, principal)
		if listed && (in.Name == "" || in.Name == s.name) && (in.Value == "" || in.Value == doc.Value) {
			found[s.name], keys = doc, append(keys, s.name)
		}
	}
	paged := protocol.Paging{NextToken: in.Token}
	if in.Most != 0 {
		paged.MaxResults = &in.Most
	}
	slices.Sort(keys)
	some, next, err := protocol.Page("ListAccountSettings", paged, protocol.MaxPage, keys, strings.Compare)
	all := []settingDoc{}
	for _, name := range some {
		all = append(all, found[name])
	}
	return struct {
		Settings []settingDoc `json:"settings"`
		Next     string       `json:"nextToken,omitempty"`
	}{all, next}, err
}

func (a *accountSettings) isMade(name, principal string) bool {
	_, ok, err := a.made(name, principal)
	return ok && err == nil
}
