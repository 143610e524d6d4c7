package cloudformation

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// values is a template whose last line is the value that a test evaluates.
const values = `Parameters:
  Tag: {Type: String, Default: "1.2"}
  Stage: {Type: String}
  Zones: {Type: CommaDelimitedList, Default: "a, b", AllowedValues: [a, b]}
  Image: {Type: "AWS::SSM::Parameter::Value<String>", Default: /shop/image}
  Hosts: {Type: "AWS::SSM::Parameter::Value<List<String>>", Default: /shop/hosts}
  Size: {Type: String, Default: small, AllowedValues: [small, big]}
Conditions:
  Yes: !Equals [!Ref Tag, "1.2"]
  No: !Not [{Condition: Yes}]
  Circle: !Not [{Condition: Circle}]
Mappings: {Sizes: {small: {cpu: 256, memory: 512}}}
Resources:
  Queue: {Type: AWS::SQS::Queue}
  Jobs: {Type: AWS::SQS::Queue, Properties: {QueueName: jobs}}
  Mails: {Type: AWS::SQS::Queue, Properties: {QueueName: !If [Yes, !Ref AWS::NoValue, mails]}}
  Role: {Type: AWS::IAM::Role}
  Self: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: !Sub "${Self}-x"}}
  Db: {Type: AWS::RDS::DBInstance}
  Secret: {Type: AWS::SecretsManager::Secret, Properties: {Name: shop}}
Value: `

// evaluated returns what a function makes, as JSON. Given are parameters, NAME=VALUE.
func evaluated(t *testing.T, value string, nameOnly bool, given ...string) (string, *toolfile.Reader) {
	t.Helper()
	r := toolfile.NewReader(toolfile.Request{File: "t.yaml", Params: map[string]string{"AWS::Region": "eu-west-1", "AWS::AccountId": "1"}})
	for _, g := range given {
		key, v, _ := strings.Cut(g, "=")
		r.Params[key] = v
	}
	docs, ok := r.Parse("t.yaml", []byte(values+value+"\n"))
	if !ok {
		t.Fatal(r.Err())
	}
	a := &assembly{Reader: r, definitions: map[string]definitionResource{}, loose: map[string]bool{}}
	a.add(&stack{path: "t.yaml", name: "t", root: docs[0]})
	return string(a.stacks[0].eval(docs[0].Member("Value"), nameOnly).JSON()), r
}

func TestFunctionsMakeValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, value, want string
		given             []string
	}{
		{"Ref of a parameter is its default", `!Ref Tag`, `"1.2"`, nil},
		{"a given parameter replaces the default", `!Ref Tag`, `"3"`, []string{"Tag=3"}},
		{"AWS::NoValue removes a member", `{a: !Ref AWS::NoValue, b: x}`, `{"b":"x"}`, nil},
		{"AWS::NoValue removes an item", `[!Ref AWS::NoValue, x]`, `["x"]`, nil},
		{"a list in a text loses the spaces around its commas", `!Ref Zones`, `["a","b"]`, nil},
		{"a list of SSM that is given is a list", `!Ref Hosts`, `["x","y"]`, []string{"Hosts=x,y"}},
		{"Ref of a queue with a name is its URL", `!Ref Jobs`, `"https://sqs.eu-west-1.amazonaws.com/1/jobs"`, nil},
		{"GetAtt takes a text with a dot", `!GetAtt Jobs.Arn`, `"arn:aws:sqs:eu-west-1:1:jobs"`, nil},
		{"GetAtt takes a list", `!GetAtt [Jobs, QueueName]`, `"jobs"`, nil},
		{"an attribute that AWS makes can be given", `!GetAtt Db.Endpoint.Address`, `"db.local"`, []string{"Db.Endpoint.Address=db.local"}},
		{"Sub replaces parameters and attributes", `!Sub "${Tag}-${Jobs.QueueName}-${AWS::Partition}"`, `"1.2-jobs-aws"`, nil},
		{"a variable of Sub hides the parameter of its name", `!Sub ["${Tag} ${Other.x}", {Tag: own, Other.x: dotted}]`, `"own dotted"`, nil},
		{"an exclamation mark in Sub keeps a variable as it is", `!Sub "${!HOME}/${Tag}"`, `"${HOME}/1.2"`, nil},
		{"Sub leaves what is not closed", `!Sub "${Tag} ${Tag"`, `"1.2 ${Tag"`, nil},
		{"Join leaves out what has no value", `!Join ["-", [a, !Ref AWS::NoValue, !Ref Tag]]`, `"a-1.2"`, nil},
		{"Join takes a parameter that is a list", `!Join ["+", !Ref Zones]`, `"a+b"`, nil},
		{"Split and Select are each other's inverse", `!Select ["2", !Split ["/", "a/b/c"]]`, `"c"`, nil},
		{"If takes its first value where the condition holds", `!If [Yes, a, b]`, `"a"`, nil},
		{"If takes its second value where it does not", `!If [No, a, b]`, `"b"`, nil},
		{"If evaluates nothing of its first value where the condition does not hold", `!If [No, !Ref Stage, b]`, `"b"`, nil},
		{"If evaluates nothing of its second value where it holds", `!If [Yes, a, !Ref Stage]`, `"a"`, nil},
		{"FindInMap takes keys that are functions", `!FindInMap [Sizes, !Ref Size, cpu]`, `256`, nil},
		{"FindInMap has a default for keys that are not there", `!FindInMap [Sizes, none, cpu, {DefaultValue: !Ref Tag}]`, `"1.2"`, nil},
		{"ImportValue takes a function", `!ImportValue {"Fn::Sub": "${Tag}-Url"}`, `"x"`, []string{"1.2-Url=x"}},
		{"ImportValue can be given", `!ImportValue other-Url`, `"x"`, []string{"other-Url=x"}},
		{"GetAZs has three zones of the region", `{"Fn::GetAZs": ""}`, `["eu-west-1a","eu-west-1b","eu-west-1c"]`, nil},
		{"Length counts a list", `{"Fn::Length": !Ref Zones}`, `2`, nil},
		{"Base64 encodes", `{"Fn::Base64": !Ref Tag}`, `"MS4y"`, nil},
		{"ToJsonString makes a text of an object", `{"Fn::ToJsonString": {a: !Ref Tag}}`, `"{\"a\":\"1.2\"}"`, nil},
		{"Equals does not tell a number from its text", `!Equals [1, "1"]`, `true`, nil},
		{"Equals compares lists", `!Equals [!Ref Zones, [a, c]]`, `false`, nil},
		{"And is false with one that is", `!And [{Condition: Yes}, {Condition: No}]`, `false`, nil},
		{"Or is true with one that is", `!Or [{Condition: No}, {Condition: Yes}]`, `true`, nil},
		{"a list is allowed whose items all are", `!Ref Zones`, `["b","a"]`, []string{"Zones=b,a"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			got, r := evaluated(t, tc.value, false, tc.given...)
			if got != tc.want || r.Err() != nil || len(r.Losses) > 0 {
				t.Errorf("%s, want %s; %v, lost %v", got, tc.want, r.Err(), r.Losses)
			}
		})
	}
}

func TestWhatCannotBeEvaluatedIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, value, want string
		given             []string
	}{
		{"a parameter without a default is asked for", `!Ref Stage`, "parameter Stage has no default; give --param Stage=VALUE", nil},
		{"a parameter in SSM is asked for, and its name is no value", `!Ref Image`, "the value of parameter Image is in SSM; give --param Image=VALUE", nil},
		{"a name that AWS makes up is asked for", `!Ref Queue`, "the name of Queue (AWS::SQS::Queue) is known on AWS only; give --param Queue=VALUE", nil},
		{"a name without a value is one that AWS makes up", `!Ref Mails`, "the name of Mails (AWS::SQS::Queue) is known on AWS only; give --param Mails=VALUE", nil},
		{"the ARN of a secret ends with letters of AWS", `!Ref Secret`, "the name of Secret (AWS::SecretsManager::Secret) is known on AWS only; give --param Secret=VALUE", nil},
		{"an attribute that AWS makes is asked for", `!GetAtt Db.Endpoint.Port`, "Endpoint.Port of Db (AWS::RDS::DBInstance) is known on AWS only; give --param Db.Endpoint.Port=VALUE", nil},
		{"an export of another stack is asked for", `!ImportValue other-Url`, "the export other-Url of another stack is not known; give --param other-Url=VALUE", nil},
		{"a name with a mistake has a suggestion", `!Ref Tga`, `there is no parameter or resource "Tga" in the template; did you mean "Tag"?`, nil},
		{"a pseudo parameter that there is not", `!Ref AWS::Planet`, `there is no pseudo parameter "AWS::Planet"`, nil},
		{"an attribute of a resource that there is not", `!Sub "${Jbos.Arn}"`, `there is no parameter or resource "Jbos" in the template; did you mean "Jobs"?`, nil},
		{"GetAtt without an attribute", `!GetAtt Jobs`, "Fn::GetAtt: it takes a resource and an attribute", nil},
		{"a list in Sub", `!Sub "${Zones}"`, "Fn::Sub: Zones is no text", nil},
		{"a delimiter that is no text", `!Join [{a: b}, [a]]`, "Fn::Join: it takes a delimiter and a list", nil},
		{"an item of Join that is no text", `!Join ["", [{a: b}]]`, "Fn::Join: an item of the list is no text", nil},
		{"an empty delimiter of Split", `!Split ["", a]`, "Fn::Split: it takes a delimiter and a text", nil},
		{"an item that a list does not have", `!Select [2, !Ref Zones]`, "Fn::Select: there is no item 2 in the list", nil},
		{"If without its second value", `!If [Yes, a]`, "Fn::If: it takes a condition and two values", nil},
		{"a condition that there is not", `!If [Yess, a, b]`, `there is no condition "Yess"`, nil},
		{"a condition of itself", `!If [Circle, a, b]`, "the condition Circle refers to itself", nil},
		{"a name of itself", `!Ref Self`, "Self refers to itself", nil},
		{"Not of two conditions", `!Not [{Condition: Yes}, {Condition: Yes}]`, "Fn::Not is no condition, or has the wrong number of values", nil},
		{"keys that a map does not have", `!FindInMap [Sizes, big, cpu]`, `Fn::FindInMap: the map "Sizes" has no "big"."cpu"`, nil},
		{"Length of a text", `{"Fn::Length": !Ref Tag}`, "Fn::Length: its value is no list", nil},
		{"a function that is not evaluated", `!Cidr [a, 1]`, "Fn::Cidr cannot be evaluated here; write its value", nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			_, r := evaluated(t, tc.value, false, tc.given...)
			var bad *toolfile.Error
			if !errors.As(r.Err(), &bad) || len(bad.Problems) != 1 {
				t.Fatalf("%v", r.Err())
			}
			p := bad.Problems[0]
			elsewhere := strings.Contains(tc.rule, "of itself") // in the condition or resource
			if !strings.HasSuffix(p.String(), ": "+tc.want) || p.Line != strings.Count(values, "\n")+1 && !elsewhere {
				t.Errorf("%s, want %s", p, tc.want)
			}
		})
	}
}

// What has no value is asked for once, and what else lacks it is no problem of its own.
func TestAMissingValueIsOneProblem(t *testing.T) {
	t.Parallel()
	for rule, value := range map[string]string{
		"two keys of FindInMap":     `[!FindInMap [Sizes, !Ref Stage, cpu], !FindInMap [Sizes, !Ref Stage, memory]]`,
		"two items of Select":       `[!Select [0, !Ref Stage], !Select [1, !Ref Stage]]`,
		"the length, and the value": `[!Ref Stage, {"Fn::Length": !Ref Stage}]`,
	} {
		_, r := evaluated(t, value, false)
		if len(r.Problems) > 0 || len(r.Needs) != 1 {
			t.Errorf("%s: %v", rule, r.Err())
		}
	}
}

// Where a value only names something on AWS, a placeholder stands for what is not known, and is told.
func TestPlaceholdersStandInNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, value, want, lost string }{
		{"a parameter in SSM has its name", `!Ref Image`, `"/shop/image"`, `the parameter Image is read from SSM; placeholder "/shop/image"`},
		{"a resource of a kind that is not known has its logical ID", `!Ref Db`, `"Db"`, `Db gets its name on AWS; placeholder "Db"`},
		{"an attribute has that with its name", `!GetAtt Db.Arn`, `"Db.Arn"`, `Arn of Db gets its name on AWS; placeholder "Db.Arn"`},
		{"a queue has an ARN with its logical ID", `!GetAtt Queue.Arn`, `"arn:aws:sqs:eu-west-1:1:Queue"`, `Arn of Queue gets its ARN on AWS; placeholder "arn:aws:sqs:eu-west-1:1:Queue"`},
		{"a name without a value is none", `!GetAtt Mails.Arn`, `"arn:aws:sqs:eu-west-1:1:Mails"`, `Arn of Mails gets its ARN on AWS; placeholder "arn:aws:sqs:eu-west-1:1:Mails"`},
		{"the name of a role is of no interest", `!GetAtt Role.Arn`, `"arn:aws:iam::1:role/Role"`, ""},
		{"an export has its name", `!ImportValue other-Url`, `"other-Url"`, `the export other-Url of another stack is not known; placeholder "other-Url"`},
	} {
		got, r := evaluated(t, tc.value, true)
		lost := ""
		for _, l := range r.Losses {
			lost += l.Message
		}
		if got != tc.want || lost != tc.lost || r.Err() != nil {
			t.Errorf("%s: %s, lost %q; %v", tc.rule, got, lost, r.Err())
		}
	}
}

func TestAValueThatIsNotAllowedIsRefused(t *testing.T) {
	t.Parallel()
	for rule, c := range map[string][2]string{"a text": {"Size", "huge"}, "an item of a list": {"Zones", "a,c"}} {
		_, r := evaluated(t, "!Ref "+c[0], false, c[0]+"="+c[1])
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "--param "+c[0]+": the template allows") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func TestTheValuesOfFunctionsAreBounded(t *testing.T) {
	t.Parallel()
	for rule, tc := range map[string]struct{ steps, text, more int }{
		"too many values": {steps: toolfile.MaxSteps}, "too long texts": {text: toolfile.MaxText, more: 1},
	} {
		s := &stack{assembly: &assembly{Reader: toolfile.NewReader(toolfile.Request{File: "t.yaml"})}}
		s.Steps, s.TextBytes = tc.steps, tc.text
		at := &doctree.Node{}
		for range 2 { // and it is told once
			if s.spend(at, tc.more) || len(s.Problems) != 1 {
				t.Errorf("%s: %v", rule, s.Problems)
			}
		}
	}
}
