package nodeconf

import (
	"strings"
	"testing"

	"edgespan/config"
)

func effective(t *testing.T, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

func TestCheckOfAnEffectiveConfig(t *testing.T) {
	const ni = `"10000000-0000-4000-8000-000000000001"`
	for _, tt := range []struct{ name, doc, want string }{
		{"nothing of ours", `{"envParams":{"X":1},"radioParamsBase":5}`, ""},
		{"groups that vendors share", `{"sysParams":{"managedConfig":true,"theirs":1},"ports":{}}`, ""},
		{"a section as a scalar", `{"ports":5}`, "ports: invalid type number: must be a mapping"},
		{"an unknown field in a section of ours", `{"ports":{"wan":{"ifName":"eth0","colour":"red"}}}`,
			"ports.wan.colour: unknown field"},
		{"what is wrong between fields", `{"ports":{"wan":{"ifName":"eth0"},"lan":{"ifName":"eth0"}}}`,
			"duplicate value eth0, also at ports."},
		{"a port made absent", `{"ports":{"wan":{"ifName":"eth0"},"lan":{"$absent":true,"ifName":"eth0"}}}`, ""},
		{"a port that is used, made absent", `{"ports":{"wan":{"$absent":true}},"networkInstances":{` + ni +
			`:{"port":"wan","ipv4":{"subnet":"10.0.0.0/24"}}}}`, ".port: invalid value \"wan\", which no port has"},
	} {
		_, faults := Check(effective(t, tt.doc))
		if got := faults.Error(); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s\nwanted: %s", tt.name, got, tt.want)
		}
	}
}

func TestCheckWarns(t *testing.T) {
	warnings, faults := Check(effective(t,
		`{"other":1,"appNetworks":{"a0000000-0000-4000-8000-000000000001":{"adapters":{"0":{
		"networkInstance":"10000000-0000-4000-8000-000000000001","attach":{"kind":"veth","netns":"x"}}}}}}`))
	if len(faults) > 0 || !strings.Contains(warnings.Error(), "which has no config: the app waits for it") {
		t.Errorf("%v; warnings %v", faults, warnings)
	}
}

func TestPresentDropsWhatALayerMadeAbsent(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"an entry", `{"ports":{"a":{"$absent":true,"x":1},"b":{"y":1}}}`, `{"ports":{"b":{"y":1}}}`},
		{"an entry that is there", `{"ports":{"a":{"$absent":false,"x":1}}}`, `{"ports":{"a":{"x":1}}}`},
		{"an entry below an entry", `{"networkInstances":{"n":{"dns":{"hosts":{"h":{"$absent":true},"i":{}}}}}}`,
			`{"networkInstances":{"n":{"dns":{"hosts":{"i":{}}}}}}`},
		{"no boolean stays, and is a fault", `{"ports":{"a":{"$absent":1}}}`, `{"ports":{"a":{"$absent":1}}}`},
		{"not where no entry is", `{"$absent":true,"ports":{"$absent":true},"sysParams":{"$absent":true}}`,
			`{"$absent":true,"ports":{"$absent":true},"sysParams":{"$absent":true}}`},
		{"not in another vendor's map", `{"tunnelConfig":{"a":{"$absent":true}}}`, `{"tunnelConfig":{"a":{"$absent":true}}}`},
	} {
		o := effective(t, tt.doc)
		before := string(config.AppendCanonical(nil, o))
		got := string(config.AppendCanonical(nil, DropAbsent(o)))
		if want := string(config.AppendCanonical(nil, effective(t, tt.want))); got != want {
			t.Errorf("%s: %s", tt.name, got)
		}
		if after := string(config.AppendCanonical(nil, o)); after != before {
			t.Errorf("%s: the document was changed: %s", tt.name, after)
		}
	}
}
