package factsapi

import "testing"

func TestAnswersUnderWayAreBounded(t *testing.T) {
	limits := DefaultLimits
	limits.Answers = 8
	if w := ask(Handler(&fake{}, door{}, WithLimits(limits)), asked{method: "GET", target: "environments/9/resources/1/values"}); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
