package configdbapi

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config/configdb/model"
)

// costly returns requests that once exceeded the limits, or came near them, over what weighty has stored.
func costly() []asked {
	const place = "environments/1/role/r/nodes/1/"
	long, half := strings.Repeat("k", 8<<20-100), strings.Repeat("k", 4<<20-100)
	escaped := joined("{", "}", 99_000, func(i int) string {
		return fmt.Sprintf(`"%s%x":0`, strings.Repeat(`\ud800`, 10), i*7919%99_000)
	})
	few := joined("{", "}", 1300, func(i int) string {
		return fmt.Sprintf(`"%s%x":0`, strings.Repeat(`\ud800`, 1000), i*7919%1300)
	})
	dots := joined(`{"keys":[`, `],"resources":["flat","flat"],"merge":"unique"}`, 100, func(i int) string {
		return fmt.Sprintf(`"k%d%s"`, i, strings.Repeat(".0", 2500))
	})
	unique := joined(`{"keys":["a"],"merge":"unique","resources":[`, "]}", model.MaxResources,
		func(int) string { return `"strings"` })
	values, keys := "environments/1/resources/small/values", "environments/1/resources/small/values/keys/"
	out := []asked{
		{method: "POST", target: place + "hiera/lookup", body: dots},
		{method: "POST", target: place + "hiera/lookup", body: unique},
		{method: "POST", target: place + "hiera/lookup", body: `{"keys":["a"],"resources":["` + long + `"]}`},
		{method: "POST", target: place + "bulk?dryRun=1", token: "operator", body: `{"resources":{"` + long +
			`":{"values":{"a":1}}}}`},
		{method: "PUT", target: keys + "get", body: `[["` + half + `","` + half + `"]]`},
		{method: "PUT", target: keys + "set?dryRun=1", token: "operator", body: `[["a","` + long + `",1]]`},
		{method: "PUT", target: keys + "delete?dryRun=1", token: "operator", body: `[["` + long + `"]]`},
		{method: "PUT", target: values, token: "operator", body: `{"a":2}`,
			header: map[string]string{"If-Match": strings.Repeat(`"",`, 21_000) + `""`}},
	}
	for _, body := range []string{`[["` + long + `"]]`, `[["a","` + long + `"]]`, `[["` + strings.Repeat("<", 8<<20-100) +
		`"]]`, escaped, few} {
		out = append(out, asked{method: "PUT", target: keys + "get", body: body})
	}
	for _, body := range []string{escaped, few} {
		out = append(out, asked{method: "PUT", target: values, token: "operator", body: body})
	}
	return out
}

// An answer that is made of many resources with many secrets costs what these are, and no text of them for each ETag.
func TestSecretsOfManyResourcesCostWhatTheyMay(t *testing.T) {
	r := &real{pending: make(chan struct{})}
	r.open(t)
	h := Handler(r, door{}, WithDirectNames())
	const resources, secrets = 250, 300
	names := joined("", "", resources, func(i int) string { return fmt.Sprintf("r%d", i) })
	for _, q := range []asked{
		{method: "POST", target: "components", body: joined(`{"name":"c","resource_definitions":[`,
			"]}", resources, func(i int) string { return fmt.Sprintf(`{"name":"r%d"}`, i) })},
		{method: "POST", target: "environments", body: `{"id":1,"components":["c"],"hierarchy_levels":["role","nodes"]}`},
	} {
		if w := ask(h, q); w.Code >= 300 {
			t.Fatal(w.Code, w.Body)
		}
	}
	paths := joined(`{"secrets":[`, "]}", secrets,
		func(j int) string { return fmt.Sprintf(`"users.%d.%s"`, j, strings.Repeat("p", 30)) })
	content := `{"content":{"$template":` +
		joined("{", "}", resources, func(j int) string { return fmt.Sprintf(`"k%d":"%%{r%d:x}"`, j, j) }) + `}}`
	for i := range resources {
		for _, q := range []asked{
			{method: "PUT", target: fmt.Sprintf("resource_definitions/%d/secrets", 1+i), body: paths},
			{method: "PUT", target: fmt.Sprintf("resource_definitions/%d", 1+i), body: content},
			{method: "PUT", target: fmt.Sprintf("environments/1/resources/r%d/values", i), body: `{"x":1}`},
		} {
			if w := ask(h, q); w.Code >= 300 {
				t.Fatal(w.Code, w.Body)
			}
		}
	}
	holds(t, h, asked{method: "GET", target: "environments/1/resources/r1/values?effective"})
	holds(t, h, asked{method: "GET", target: "environments/1/hiera/lookup/x?resources=" +
		names[:strings.Index(names, "r64")-1]})
}
