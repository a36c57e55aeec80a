package configdbapi

import (
	"fmt"
	"strings"
	"testing"
)

// An operator's dry run answers the same for the right guess of a secret as for a wrong one; an admin, who may see it,
// learns that nothing changes.
func TestADryRunConfirmsNoSecret(t *testing.T) {
	h := Handler(newReal(t), door{})
	for _, q := range []asked{
		{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"r"}]}`},
		{method: "POST", target: "environments", body: `{"components":["c"],"hierarchy_levels":["nodes"]}`},
		{method: "PUT", target: "resource_definitions/1/secrets", body: `{"secrets":["password"]}`},
		{method: "PUT", target: "environments/1/resources/1/values", body: `{"a":1,"password":"right"}`},
	} {
		if w := ask(h, q); w.Code >= 300 {
			t.Fatal(w.Code, w.Body)
		}
	}
	try := func(token, password string) string {
		w := ask(h, asked{method: "PUT", target: "environments/1/resources/1/values?dryRun=1", token: token,
			body: `{"a":1,"password":` + password + `}`})
		return fmt.Sprint(w.Code, w.Header(), w.Body)
	}
	right, wrong := try("operator", `"right"`), try("operator", `"wrong"`)
	if right != wrong || strings.Contains(right, "sha256") {
		t.Errorf("the right guess:\n%s\na wrong one:\n%s", right, wrong)
	}
	for token, password := range map[string]string{"operator": `{"$masked":true}`, "admin": `"right"`} {
		if got := try(token, password); !strings.Contains(got, `"changed":false`) {
			t.Errorf("%s %s: %s", token, password, got)
		}
	}
}
