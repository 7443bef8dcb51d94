"""The cost of the tiflux function on AWS Lambda, beside its API call alone and another library."""
