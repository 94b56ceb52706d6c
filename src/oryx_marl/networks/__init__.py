"""One set of weights, in the forms that training and acting need."""
