// Classifies one second of sound, given as 49 x 10 cepstral coefficients, and prints the word.
#include "kws.h"
#include "semihosting.h"

static const char* const words[] = {"down\n", "go\n",   "left\n", "no\n",  "off\n",     "on\n",
                                    "right\n", "stop\n", "up\n",   "yes\n", "silence\n", "unknown\n"};

static float sound[KWS_X_ELEMENTS], probabilities[KWS_PROBABILITIES_ELEMENTS];

int main(void) {
  for (int i = 0; i < KWS_X_ELEMENTS; ++i) sound[i] = (float)(i % 10) * 0.1f;  // a microphone's data goes here
  const int status = kws_run(sound, probabilities);
  if (status != 0) return status;
  int best = 0;
  for (int i = 1; i < KWS_PROBABILITIES_ELEMENTS; ++i) best = probabilities[i] > probabilities[best] ? i : best;
  semihosting_print(words[best]);
  return 0;
}
